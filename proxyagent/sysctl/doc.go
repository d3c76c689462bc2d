// Package sysctl sets what a Service proxy needs in /proc/sys: room and time-outs of connection
// tracking, routing of loopback addresses for node ports on localhost, and the settings of IPVS.
//
// The values are those that kube-proxy would set from the same configuration. A value that differs
// is set, even lowered; only the number of hash buckets is never lowered. A zero in Want leaves a
// value alone. The buckets are set by their sysctl, which Linux has since 4.9, not as in kube-proxy
// by the parameter of the module: a pod has no /sys to write to.
//
// It promises not to write what is right already, to set all values that can be set, and to say in
// the error what an admin can do about the rest.
package sysctl
