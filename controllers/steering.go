package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/controllers/additional"
	steerer "github.com/clusterip-operator/clusterip-operator/controllers/admission"
	"github.com/clusterip-operator/clusterip-operator/controllers/enforcement"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/leader"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/webhook"
	"github.com/clusterip-operator/clusterip-operator/controllers/policy"
	"github.com/clusterip-operator/clusterip-operator/controllers/reservation"
)

// sweeping is how often what was handed out, and what has rested, is looked at: a cool-down ends that much late at most.
const sweeping = 500 * time.Millisecond

// steer sets up what runs on every replica for the sake of ServiceCIDRPolicies, and returns the loops that the leader runs.
func (o Options) steer(ctx context.Context, mgr manager.Manager, index *addressindex.Index) ([]loop, error) {
	if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	board := steering.NewBoard()
	board.Subscribe(func(_, after *steering.Snapshot) { index.SetRules(after) }) // the first to hear of it
	if err := errors.Join(board.Watch(ctx, mgr.GetCache()), mgr.Add(board), mgr.Add(everywhere(sweep(index)))); err != nil {
		return nil, fmt.Errorf("watching policies: %w", err)
	}
	if err := mgr.AddReadyzCheck("policies", ready("policies are not read yet", board.Synced)); err != nil {
		return nil, err
	}
	if o.Webhook.Enabled() {
		if err := o.admit(ctx, mgr, index, board); err != nil {
			return nil, fmt.Errorf("serving webhooks: %w", err)
		}
	}
	return o.policyLoops(mgr, index, board), nil
}

// policyLoops are the loops of the leader.
func (o Options) policyLoops(mgr manager.Manager, index *addressindex.Index, board *steering.Board) []loop {
	clk := clock.RealClock{}
	return []loop{
		&reservation.Reconciler{Client: mgr.GetClient(), Index: index, Board: board, Clock: clk, APIVersion: o.GroupVersion.String()},
		&policy.Reconciler{
			Client: mgr.GetClient(), Index: index, Board: board, Clock: clk, Events: mgr.GetEventRecorder("clusterip-operator-policy"),
		},
		&additional.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Index: index, Board: board, Clock: clk,
			Events: mgr.GetEventRecorder("clusterip-operator-additional"),
		},
		&enforcement.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Policies: board, Addresses: index, Clock: clk,
			Changed: addressindex.Map(index.Addresses(), enforcement.Audits(board)), Events: mgr.GetEventRecorder("clusterip-operator-enforcement"),
		},
	}
}

// admit serves the webhooks.
func (o Options) admit(ctx context.Context, mgr manager.Manager, index *addressindex.Index, board *steering.Board) error {
	writer, err := ownClient(mgr)
	if err != nil {
		return err
	}
	clk := clock.RealClock{}
	refusals := steerer.NewRefusals(writer)
	self := username(ctx, mgr)
	here := &steerer.ServiceSteerer{
		Writer: writer, Namespaces: mgr.GetClient(), Live: writer, Index: index, Board: board, Refusals: refusals, Clock: clk,
	}
	handlers := map[string]admission.Handler{
		"/validate-ipaddress": &steerer.IPAddressGuard{Live: writer, Index: index, Username: self},
		"/validate-servicecidr": &steerer.ServiceCIDRGuard{
			Mode: steerer.OverlapMode(o.Webhook.NetworkOverlap), Index: index, Networks: o.networks(), Username: self,
		},
		"/validate-servicecidrpolicy": &steerer.PolicyGuard{Client: mgr.GetClient(), Board: board, Clock: clk},
	}
	certificates, err := webhook.NewCertificates(mgr, o.webhookOptions())
	if err != nil {
		return err
	}
	steers := *here
	if o.Lock != nil {
		steers.Leader = leader.NewClient(o.Lock, asLeader, certificates.GetCertificate)
		if err := mgr.AddReadyzCheck("leader", ready("the Lease of the leader election is not read yet", o.Lock.Known)); err != nil {
			return err
		}
	}
	handlers["/mutate-service"], handlers[asLeader] = &steers, here
	served := map[string]http.Handler{}
	for path, h := range handlers {
		// A panic that is caught here is an answer, and a refusal. Left to the HTTP server it breaks the connection, and the request passes.
		served[path] = &admission.Webhook{Handler: h, RecoverPanic: new(false)}
	}
	served[asLeader] = leader.Promptly(served[asLeader])
	return errors.Join(mgr.Add(refusals), o.serveWebhooks(mgr, certificates, served), registerAdmission(index),
		mgr.AddReadyzCheck("index", ready("Services and addresses are not read yet", index.Synced)))
}

// ownClient is a client for what the API server waits for: it does not queue behind the loops of the leader.
func ownClient(mgr manager.Manager) (client.Client, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.RateLimiter = nil
	c, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("making a client for webhooks: %w", err)
	}
	return c, nil
}

// username is who the API server takes us for; empty where it does not say. The guards let pass what the operator does itself.
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

// registerAdmission adds what the register of addresses in flight counts.
func registerAdmission(index *addressindex.Index) error {
	return errors.Join(
		ctrlmetrics.Registry.Register(metrics.InFlightAddresses(func() float64 { return float64(index.InFlight()) })),
		ctrlmetrics.Registry.Register(metrics.Collisions(func() float64 { return float64(index.Collisions()) })),
	)
}

// sweep ends what is over in the index.
func sweep(index *addressindex.Index) func(context.Context) error {
	return func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(context.Context) { index.Sweep() }, sweeping)
		return nil
	}
}

// everywhere is a runnable that every replica runs, and not the leader alone.
type everywhere func(context.Context) error

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

var _ manager.LeaderElectionRunnable = everywhere(nil)

// ready makes a readiness check of a question.
func ready(otherwise string, question func() bool) func(*http.Request) error {
	return func(*http.Request) error {
		if !question() {
			return errors.New(otherwise)
		}
		return nil
	}
}
