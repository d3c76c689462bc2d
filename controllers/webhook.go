package controllers

import (
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
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

// endpoints are what config/webhook lets the API server send to each path; a test holds the two together.
func endpoints() map[string]webhook.Endpoint {
	written, changed := []admissionv1.Operation{admissionv1.Create, admissionv1.Update}, []admissionv1.Operation{admissionv1.Update, admissionv1.Delete}
	return map[string]webhook.Endpoint{
		"/mutate-service":             {Resource: "services", Operations: written},
		"/validate-ipaddress":         {Group: networkingv1.GroupName, Resource: "ipaddresses", Operations: changed},
		"/validate-servicecidr":       {Group: networkingv1.GroupName, Resource: "servicecidrs", Operations: written},
		"/validate-servicecidrpolicy": {Group: v1alpha1.GroupVersion.Group, Resource: v1alpha1.Resource, Operations: written},
	}
}

// asLeader is the path at which replicas ask the leader. It hands nothing on, so that two replicas that take each other for the leader do not ask in
// a circle. No API server is told of it.
const asLeader = "/mutate-service-as-leader"

func (o Options) webhookOptions() webhook.Options {
	w := o.Webhook
	return webhook.Options{
		BindAddress: w.BindAddress, CertDir: w.CertDir, Namespace: o.Namespace, Service: w.Service, DNSNames: w.DNSNames, Configuration: w.Configuration,
	}
}

// serveWebhooks serves a handler for each endpoint, on every replica, and makes readiness depend on it.
func (o Options) serveWebhooks(mgr manager.Manager, certificates webhook.Certificates, handlers map[string]http.Handler) error {
	served := endpoints()
	served[asLeader] = served["/mutate-service"]
	for path, endpoint := range served {
		endpoint.Handler = handlers[path]
		served[path] = endpoint
	}
	return webhook.SetupWithManager(mgr, o.webhookOptions(), certificates, served)
}
