package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	steerer "github.com/clusterip-operator/clusterip-operator/controllers/admission"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/leader"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/webhook"
)

// Webhook says how webhooks are served; see api/config/v1alpha1. The zero value serves none.
type Webhook = webhook.Options

const (
	mutateService = "/mutate-service"
	// asLeader is the path at which replicas ask the leader. It hands nothing on, so that two replicas
	// that take each other for the leader do not ask in a circle. No API server is told of it.
	asLeader = "/mutate-service-as-leader"
)

// endpoints are what config/webhook lets the API server send to each path; a test compares both.
func endpoints() map[string]webhook.Endpoint {
	written, changed := []admissionv1.Operation{admissionv1.Create, admissionv1.Update}, []admissionv1.Operation{admissionv1.Update, admissionv1.Delete}
	return map[string]webhook.Endpoint{
		mutateService:           {Resource: "services", Operations: written, Reads: steerer.ReadsOfService},
		"/validate-ipaddress":   {Group: networkingv1.GroupName, Resource: "ipaddresses", Operations: changed, Reads: steerer.ReadsOfIPAddress},
		"/validate-servicecidr": {Group: networkingv1.GroupName, Resource: "servicecidrs", Operations: written, Reads: steerer.ReadsOfServiceCIDR},
		"/validate-servicecidrpolicy": {
			Group: v1alpha1.GroupVersion.Group, Resource: v1alpha1.Resource, Operations: written, Reads: steerer.ReadsOfPolicy,
		},
	}
}

// admit serves the webhooks, on every replica, and makes readiness depend on them.
func (o Options) admit(ctx context.Context, mgr manager.Manager, index *addressindex.Index, policies *steering.Cache) error {
	writer, err := ownClient(mgr)
	if err != nil {
		return err
	}
	o.Webhook.Namespace = o.Namespace
	certificate, err := webhook.NewCertificate(mgr, o.Webhook)
	if err != nil {
		return err
	}
	refusals := steerer.NewRefusals(writer, mgr.GetEventRecorder("clusterip-operator-admission"))
	self := username(ctx, mgr)
	here := steerer.ServiceSteerer{
		Writer: writer, Namespaces: mgr.GetClient(), Live: writer, Index: index, Policies: policies, Refusals: refusals, Clock: clock.RealClock{},
	}
	steers := here
	here.ForReplicas = true
	steers.Probe = &steerer.Probe{Replica: o.Replica, Version: o.Version}
	if o.Lock != nil {
		steers.Leader = leader.NewClient(o.Lock, asLeader, certificate)
		if err := mgr.AddReadyzCheck("leader", ready("the Lease of the leader election is not read yet", o.Lock.Known)); err != nil {
			return err
		}
	}
	room := webhook.NewRoom(cmp.Or(o.Webhook.Budget, webhook.Budget))
	served := serve(room, map[string]admission.Handler{
		mutateService:         &steers,
		"/validate-ipaddress": &steerer.IPAddressGuard{Live: writer, Index: index, Username: self},
		"/validate-servicecidr": &steerer.ServiceCIDRGuard{
			Mode: steerer.OverlapMode(o.Webhook.NetworkOverlap), Index: index, Networks: o.networks(), Username: self,
		},
		"/validate-servicecidrpolicy": &steerer.PolicyGuard{Policies: policies},
	})
	served[asLeader] = leader.Promptly(serve(room, map[string]admission.Handler{mutateService: &here})[mutateService])
	return errors.Join(mgr.Add(refusals), webhook.SetupWithManager(mgr, o.Webhook, certificate, served),
		mgr.AddReadyzCheck("index", ready("Services and addresses are not read yet", index.Synced)))
}

// serve makes HTTP handlers that take what config/webhook has API servers send to these paths.
func serve(room *webhook.Room, handlers map[string]admission.Handler) map[string]http.Handler {
	served := map[string]http.Handler{}
	for path, handler := range handlers {
		endpoint := endpoints()[path]
		endpoint.Handler = handler
		served[path] = webhook.Serve(endpoint, room)
	}
	return served
}

// ownClient is for what the API server waits for: it does not queue behind the leader's loops.
func ownClient(mgr manager.Manager) (client.Client, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.RateLimiter = nil
	c, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("making a client for webhooks: %w", err)
	}
	return c, nil
}

// username is who the API server takes us for, empty if unknown. The guards let the operator pass.
func username(ctx context.Context, mgr manager.Manager) string {
	c, err := authenticationclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err == nil {
		var review *authenticationv1.SelfSubjectReview
		if review, err = c.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err == nil {
			return review.Status.UserInfo.Username
		}
	}
	mgr.GetLogger().Error(err, "The operator could not ask for its own user name; the guards know it by the webhook configuration alone")
	return ""
}
