// Package webhook serves admission webhooks over TLS on every replica and keeps their certificate.
//
// The certificate comes from files that another program renews, as cert-manager does, or is our own
// and lies in a Secret: then every replica follows the Secret and enters the CA into the webhook
// configurations. Trouble with either never ends the manager: without a certificate handshakes
// fail, the readiness check says why, and the API server goes on without us.
//
// Serve reads what an API server posts: reviews of any size, of which it holds what the endpoint
// names, so that what a tenant sends costs no memory.
//
// Start with SetupWithManager and Serve. trim.go passes over what no handler reads, certificate.go
// issues and renews a certificate of our own.
package webhook
