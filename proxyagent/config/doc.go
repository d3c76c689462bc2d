// Package config brings the node agent's configuration together: its file, maybe kube-proxy's, and
// the Settings of each family for the rest of the agent. The flags come from cmd/proxyagent.
//
//	file ── Load ──> ProxyAgentConfiguration ── flags ── Validate ── Settings ──> model.Settings
//
// It promises that a file is either taken as a whole or refused with all its mistakes named, and
// that kube-proxy's file means the same here: what cannot be honoured is an error, what has no
// meaning a warning, what is left out has kube-proxy's default. Only Load touches anything outside.
//
// Start with Load; the types are in api/config/v1alpha1.
package config
