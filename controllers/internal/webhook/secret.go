package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// SecretName is the Secret with a certificate of our own.
	SecretName = "clusterip-operator-webhook"
	// fieldOwner signs what we write into the Secret and into the webhook configurations.
	fieldOwner = "clusterip-operator-webhook"
	// handOver is how long the certificate in use stays after its successor is trusted, while the API servers learn of that.
	handOver = 2 * time.Second
	// checkEvery is how often we look whether a certificate ends soon.
	checkEvery = time.Hour
)

// keeper keeps a certificate of our own. Whoever finds no Secret creates it; only the leader replaces what is in one, because replicas of two
// versions may want different names. A new CA is trusted, beside the old one, before its certificate is served, so that no call fails.
type keeper struct {
	Options
	reader  client.Reader
	writer  client.Client
	elected <-chan struct{}
	serving atomic.Pointer[pair]
}

// onEveryReplica is a cache that runs without leading. A cache with options by object does not say so itself.
type onEveryReplica struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (onEveryReplica) NeedLeaderElection() bool { return false }

func newKeeper(mgr manager.Manager, o Options) (*keeper, error) {
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	secret := named(SecretName)
	secret.Namespaces = map[string]cache.Config{o.Namespace: {}}
	objects := map[client.Object]cache.ByObject{
		&corev1.Secret{}: secret,
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   named(o.Configuration),
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: named(o.Configuration),
	}
	if err := admissionregistrationv1.AddToScheme(mgr.GetScheme()); err != nil {
		return nil, err
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), ByObject: objects,
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache for the certificate: %w", err)
	}
	k := &keeper{Options: o, reader: c, writer: client.WithFieldOwner(mgr.GetClient(), fieldOwner), elected: mgr.Elected()}
	b := builder.ControllerManagedBy(mgr).Named("webhook-certificate").WatchesRawSource(source.Func(k.begin)).WithOptions(controller.Options{
		NeedLeaderElection: new(false),
		CacheSyncTimeout:   math.MaxInt64, // a watch that is refused does not end the manager
		RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 10*time.Second),
	})
	for o := range objects {
		one := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} }
		b = b.WatchesRawSource(source.Kind(c, o, handler.EnqueueRequestsFromMapFunc(one)))
	}
	return k, errors.Join(mgr.Add(onEveryReplica{c}), b.Complete(k))
}

// begin asks for a first look, which a missing Secret does not, and for one more by the leader.
func (k *keeper) begin(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(reconcile.Request{})
	go func() {
		select {
		case <-ctx.Done():
		case <-k.elected:
			queue.Add(reconcile.Request{})
		}
	}()
	return nil
}

// GetCertificate returns the certificate in use.
func (k *keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if p := k.serving.Load(); p != nil {
		return &p.certificate, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Reconcile serves what is in the Secret, once it is trusted, and issues what is lacking there.
func (k *keeper) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now, secret := time.Now(), &corev1.Secret{}
	err := k.reader.Get(ctx, k.key(), secret)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, k.renew(ctx, secret, "there is none")
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	p, err := parse(secret.Data, now)
	if err != nil {
		return reconcile.Result{}, k.renew(ctx, secret, err.Error())
	}
	used := k.serving.Load()
	if used.expired(now) {
		k.serve(ctx, p)
	}
	if err := k.trust(ctx, join(p.bundle, used, now)); err != nil {
		return reconcile.Result{}, err
	}
	if !k.serving.Load().sameAs(p) {
		if !k.stays(ctx, secret) {
			return reconcile.Result{}, nil // its change wakes us
		}
		k.serve(ctx, p)
	}
	if reason := p.due(k.names(), now); reason != "" && k.leads() {
		return reconcile.Result{}, k.renew(ctx, secret, reason)
	}
	return reconcile.Result{RequeueAfter: checkEvery}, nil
}

func (k *keeper) serve(ctx context.Context, p *pair) {
	k.serving.Store(p)
	log.FromContext(ctx).Info("The webhooks have a new certificate", "names", p.leaf().DNSNames, "notAfter", p.leaf().NotAfter)
}

// stays waits for the time of a handOver, and reports whether the Secret is still the same.
func (k *keeper) stays(ctx context.Context, secret *corev1.Secret) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(handOver):
	}
	now := &corev1.Secret{}
	return k.reader.Get(ctx, k.key(), now) == nil && now.ResourceVersion == secret.ResourceVersion
}

// renew writes a new certificate into the Secret, and creates one that is not there.
func (k *keeper) renew(ctx context.Context, secret *corev1.Secret, reason string) (err error) {
	exists := secret.ResourceVersion != ""
	if exists && !k.leads() {
		return nil // the leader does it
	}
	log.FromContext(ctx).Info("Issuing a certificate for the webhooks", "secret", k.key().String(), "reason", reason)
	if secret.Data, err = issue(k.names(), k.serving.Load(), time.Now()); err != nil {
		return err
	}
	if exists {
		return k.writer.Update(ctx, secret)
	}
	secret.Namespace, secret.Name = k.Namespace, SecretName
	secret.Labels = map[string]string{"app.kubernetes.io/name": "clusterip-operator", "app.kubernetes.io/component": "manager"}
	return client.IgnoreAlreadyExists(k.writer.Create(ctx, secret)) // another replica was faster, and its Secret wakes us
}

func (k *keeper) leads() bool {
	select {
	case <-k.elected:
		return true
	default:
		return false
	}
}

func (k *keeper) key() client.ObjectKey {
	return client.ObjectKey{Namespace: k.Namespace, Name: SecretName}
}

// names are all that the certificate must carry, first the one that the API server expects when it calls a Service.
func (k *keeper) names() []string {
	return append([]string{k.Service + "." + k.Namespace + ".svc"}, k.DNSNames...)
}

// trust enters a bundle of CAs into the webhook configurations that have another one.
func (k *keeper) trust(ctx context.Context, bundle []byte) error {
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, o := range []client.Object{mutating, validating} {
		err := k.reader.Get(ctx, client.ObjectKey{Name: k.Configuration}, o)
		if apierrors.IsNotFound(err) {
			continue // it wakes us when it comes
		}
		if err != nil {
			return err
		}
		before := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy of its own kind
		if !enter(bundle, o) {
			continue
		}
		patch := client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
		if err := k.writer.Patch(ctx, o, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("entering the CA into the %T %s: %w", o, k.Configuration, err)
		}
	}
	return nil
}

// enter changes the configuration in memory, and reports whether it did.
func enter(bundle []byte, configuration client.Object) (changed bool) {
	set := func(c *admissionregistrationv1.WebhookClientConfig) {
		changed = changed || !bytes.Equal(c.CABundle, bundle)
		c.CABundle = bundle
	}
	switch c := configuration.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			set(&c.Webhooks[i].ClientConfig)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			set(&c.Webhooks[i].ClientConfig)
		}
	}
	return changed
}
