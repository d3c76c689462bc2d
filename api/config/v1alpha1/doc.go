// Package v1alpha1 defines, reads and validates the configuration files of manager and node agent.
//
// A file is either taken as a whole or refused with every mistake in it named at once. A field left
// out means its default, which is also the default of the flag.
//
// Start with ManagerConfiguration, which Load reads, and ProxyAgentConfiguration (ParseProxyAgent).
//
// +groupName=config.clusterip-operator.io
package v1alpha1
