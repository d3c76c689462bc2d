// Package v1alpha1 is the configuration files of the manager and of the node agent: types, defaults, reading and validation.
//
// It promises that a file is either taken as a whole or refused with every mistake in it named at once, and that
// a file without a field means the same as the field's default, which is also the default of the flag.
//
// Start with ManagerConfiguration, which Load reads, and with ProxyAgentConfiguration, which ParseProxyAgent reads.
//
// +groupName=config.clusterip-operator.io
package v1alpha1
