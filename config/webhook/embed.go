// Package webhook has the webhook configurations of config/default as the texts that the plugin
// compares the cluster's with: what is applied and what is looked for cannot drift apart.
package webhook

import _ "embed" // for the texts

// Mutating and Validating are the two configurations, in YAML.
var (
	//go:embed mutating.yaml
	Mutating []byte
	//go:embed validating.yaml
	Validating []byte
)
