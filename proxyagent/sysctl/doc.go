// Package sysctl sets what a Service proxy needs in /proc/sys: room and time-outs of connection tracking, routing of
// loopback addresses for node ports on localhost, and the settings of IPVS.
//
// The values are those that kube-proxy would set from the same configuration. As there, a value that differs is set, also when
// that lowers it; only the number of hash buckets is never lowered. A zero in Want leaves a value alone. The buckets are set through their
// sysctl, which exists since Linux 4.9, and not as kube-proxy does through the parameter of the module: a pod has no /sys to write to.
//
// It promises that what is right already is not written, that one value that cannot be set does not keep the others from being set,
// and that the error then says what an admin can do.
package sysctl
