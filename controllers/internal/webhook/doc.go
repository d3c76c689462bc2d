// Package webhook serves admission webhooks over TLS, on every replica, and looks after their certificates.
//
// Certificates come from a Secret, where cert-controller issues and rotates them and from where it enters their authority into the
// webhook configurations; or from files, as cert-manager mounts them. A Secret is watched through the API: a new certificate is in use
// on all replicas within two seconds, which no kubelet is that fast with.
//
// It promises that no trouble with certificates ends the manager: the loops work without webhooks, and the API server allocates
// without them. Until there is a certificate, handshakes fail and the readiness check says why. A new authority takes over without a
// gap: see handOver.
//
// Start with SetupWithManager.
package webhook
