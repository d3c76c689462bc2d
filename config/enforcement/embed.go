// Package enforcement has the ValidatingAdmissionPolicy of config/default as the text that the
// manager compares the cluster's with: one text, which admins apply and review, and no copy.
package enforcement

import _ "embed" // for Policy

// Policy is the ValidatingAdmissionPolicy, in YAML.
//
//go:embed policy.yaml
var Policy []byte
