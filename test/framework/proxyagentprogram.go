//go:build linux

package framework

// ProxyAgentProgram returns the path of our node agent, built once per process, for tests that start it in a way of their own.
func ProxyAgentProgram() (string, error) { return proxyAgent(false) }
