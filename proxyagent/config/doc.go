// Package config brings the node agent's configuration together: the file, which may be kube-proxy's, and the
// Settings of each family that the rest of the agent works by. The flags come from cmd/proxyagent.
//
//	file ── Load ──> ProxyAgentConfiguration ── flags ── Validate ── Settings ──> model.Settings
//
// It promises that a file is either taken as a whole or refused with every mistake in it named at once, and that kube-proxy's file
// means here what it means there: what cannot be honoured is an error, what has no meaning is named in a warning, and what is left
// out has kube-proxy's default. Only Load touches anything outside of its arguments.
//
// Start with Load; the types are in api/config/v1alpha1.
package config
