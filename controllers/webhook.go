package controllers

import (
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/webhook"
)

// Webhook says how admission webhooks are served; see api/config/v1alpha1 for each field. The zero value serves none.
type Webhook struct {
	BindAddress    string
	DNSNames       []string
	CertDir        string
	Service        string
	Configuration  string
	NetworkOverlap string
}

// Enabled reports whether webhooks are served.
func (w Webhook) Enabled() bool { return w.BindAddress != "" }

// serveWebhooks serves handlers by their paths, on every replica, and makes readiness depend on it.
func (o Options) serveWebhooks(mgr manager.Manager, handlers map[string]http.Handler) (webhook.Certificates, error) {
	w := o.Webhook
	return webhook.SetupWithManager(mgr, webhook.Options{
		BindAddress: w.BindAddress, CertDir: w.CertDir, Namespace: o.Namespace, Service: w.Service, DNSNames: w.DNSNames, Configuration: w.Configuration,
	}, handlers)
}
