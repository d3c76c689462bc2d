package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/cert"
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

	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
)

const (
	// SecretName is the Secret with a certificate of our own.
	SecretName = "clusterip-operator-webhook"
	// fieldOwner signs what we write into the Secret and into the webhook configurations.
	fieldOwner = "clusterip-operator-webhook"
	// Keys of the Secret, and names of the files that cert-manager mounts.
	certKey, keyKey, caKey = "tls.crt", "tls.key", "ca.crt"
	// renewBefore its end a certificate is replaced.
	renewBefore = 90 * 24 * time.Hour
	// handOver is how long API servers have to learn of a new certificate's CA before it is used.
	handOver = 2 * time.Second
	// checkEvery is how often we look whether a certificate ends soon and we have become the leader.
	checkEvery = 10 * time.Second
	// conflictDelay is the pause after another replica was faster.
	conflictDelay = 200 * time.Millisecond
)

// pair is a certificate with its key. It is not changed once it is made.
type pair struct {
	certificate tls.Certificate
	// bundle holds the CAs in the Secret, and ca the one of them that issued the certificate, in PEM.
	bundle, ca []byte
}

// parse reads a Secret. An error says why no client would accept the certificate now.
func parse(data map[string][]byte, now time.Time) (*pair, error) {
	certificate, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("reading certificate and key: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[caKey]) {
		return nil, errors.New("there is no certificate of a CA")
	}
	chains, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now})
	if err != nil {
		return nil, fmt.Errorf("verifying the certificate: %w", err)
	}
	ca, err := cert.EncodeCertificates(chains[0][len(chains[0])-1])
	return &pair{certificate: certificate, bundle: data[caKey], ca: ca}, err
}

// issue returns a Secret with a new certificate for names, of a new CA whose key is thrown away,
// and with the CA of the one in use.
func issue(names []string, used *pair, now time.Time) (map[string][]byte, error) {
	text, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: names[0], AlternateDNS: names[1:]})
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	chain, err := cert.ParseCertsPEM(text)
	if err != nil {
		return nil, fmt.Errorf("reading the new certificate: %w", err)
	}
	ca, err := cert.EncodeCertificates(chain[len(chain)-1])
	return map[string][]byte{certKey: text, keyKey: key, caKey: join(ca, used, now)}, err
}

// join adds the CA of the certificate in use to a bundle, so that clients trust both.
func join(bundle []byte, used *pair, now time.Time) []byte {
	if used.expired(now) || bytes.Contains(bundle, used.ca) {
		return bundle
	}
	return slices.Concat(bundle, used.ca)
}

// due says why a certificate is to be replaced; empty if it is not.
func (p *pair) due(names []string, now time.Time) string {
	for _, name := range names {
		if p.leaf().VerifyHostname(name) != nil {
			return "it lacks the name " + name
		}
	}
	if now.Add(renewBefore).After(p.leaf().NotAfter) {
		return "it ends soon"
	}
	return ""
}

func (p *pair) leaf() *x509.Certificate { return p.certificate.Leaf }

// expired reports whether no client accepts the certificate any more. No pair at all has expired.
func (p *pair) expired(now time.Time) bool { return p == nil || now.After(p.leaf().NotAfter) }

// reconciler maintains a certificate of our own. A replica that finds no Secret creates it; only
// the leader replaces what is in one, because replicas of two versions may want different names. A
// new CA is trusted, beside the old one, before its certificate is served, so that no call fails.
type reconciler struct {
	Options
	// Cache follows the Secret and the webhook configurations, by their names.
	cache.Cache
	writer  client.Client
	elected <-chan struct{}
	serving atomic.Pointer[pair]
}

func newReconciler(mgr manager.Manager, o Options) (*reconciler, error) {
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
	r := &reconciler{Options: o, Cache: c, writer: client.WithFieldOwner(mgr.GetClient(), fieldOwner), elected: mgr.Elected()}
	first := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{}) // which a missing Secret does not
		return nil
	})
	b := builder.ControllerManagedBy(mgr).Named("webhook-certificate").WatchesRawSource(first).WithOptions(controller.Options{
		NeedLeaderElection: new(false),
		CacheSyncTimeout:   math.MaxInt64, // a watch that is refused does not end the manager
		RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 10*time.Second),
	})
	for o := range objects {
		one := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} }
		b = b.WatchesRawSource(source.Kind(c, o, handler.EnqueueRequestsFromMapFunc(one)))
	}
	return r, errors.Join(mgr.Add(r), b.Complete(r))
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (r *reconciler) NeedLeaderElection() bool { return false }

// certificate is a Certificate.
func (r *reconciler) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if p := r.serving.Load(); p != nil {
		return &p.certificate, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Reconcile does what follow says, and again when another replica was faster.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	switch err := r.follow(ctx, time.Now()); {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: checkEvery}, nil
}

// follow serves what is in the Secret, once it is trusted, and issues what is lacking there.
func (r *reconciler) follow(ctx context.Context, now time.Time) error {
	secret := &corev1.Secret{}
	err := r.Get(ctx, r.key(), secret)
	if apierrors.IsNotFound(err) {
		return r.renew(ctx, secret, "there is none")
	}
	if err != nil {
		return err
	}
	p, err := parse(secret.Data, now)
	if err != nil {
		return r.renew(ctx, secret, err.Error())
	}
	used := r.serving.Load()
	if used.expired(now) {
		r.serve(ctx, p)
	}
	if err := r.trust(ctx, join(p.bundle, used, now)); err != nil {
		return err
	}
	if reason := p.due(r.names(), now); reason != "" {
		return r.renew(ctx, secret, reason) // what is in use is no worse
	}
	if !r.serving.Load().leaf().Equal(p.leaf()) && r.stays(ctx, secret) {
		r.serve(ctx, p)
	}
	return nil
}

func (r *reconciler) serve(ctx context.Context, p *pair) {
	r.serving.Store(p)
	metrics.CertificateExpiration.Set(float64(p.leaf().NotAfter.Unix()))
	log.FromContext(ctx).Info("The webhooks have a new certificate", "names", p.leaf().DNSNames, "notAfter", p.leaf().NotAfter)
}

// stays waits for handOver, and reports whether the Secret is unchanged; its change wakes us.
func (r *reconciler) stays(ctx context.Context, secret *corev1.Secret) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(handOver):
	}
	now := &corev1.Secret{}
	return r.Get(ctx, r.key(), now) == nil && now.ResourceVersion == secret.ResourceVersion
}

// renew writes a new certificate into the Secret, and creates one that is not there.
func (r *reconciler) renew(ctx context.Context, secret *corev1.Secret, reason string) (err error) {
	exists := secret.ResourceVersion != ""
	select {
	case <-r.elected:
	default:
		if exists {
			return nil // the leader does it
		}
	}
	log.FromContext(ctx).Info("Issuing a certificate for the webhooks", "secret", r.key().String(), "reason", reason)
	if secret.Data, err = issue(r.names(), r.serving.Load(), time.Now()); err != nil {
		return err
	}
	if exists {
		return r.writer.Update(ctx, secret)
	}
	secret.Namespace, secret.Name = r.Namespace, SecretName
	secret.Labels = map[string]string{"app.kubernetes.io/name": "clusterip-operator", "app.kubernetes.io/component": "manager"}
	return client.IgnoreAlreadyExists(r.writer.Create(ctx, secret)) // another replica was faster, and its Secret wakes us
}

func (r *reconciler) key() client.ObjectKey {
	return client.ObjectKey{Namespace: r.Namespace, Name: SecretName}
}

// names are all that the certificate must carry, first the one by which the API server calls us.
func (r *reconciler) names() []string {
	return append([]string{r.Service + "." + r.Namespace + ".svc"}, r.DNSNames...)
}

// trust enters a bundle of CAs into the webhook configurations that lack it, and counts their
// webhooks.
func (r *reconciler) trust(ctx context.Context, bundle []byte) error {
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for kind, o := range map[string]client.Object{"MutatingWebhookConfiguration": mutating, "ValidatingWebhookConfiguration": validating} {
		err := r.Get(ctx, client.ObjectKey{Name: r.Configuration}, o)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		configs := clientConfigs(o)
		metrics.WebhooksConfigured.WithLabelValues(kind).Set(float64(len(configs)))
		if !enter(bundle, configs) {
			continue // one that is missing wakes us when it comes
		}
		// An update, as in every version so far: until a replica of the new version runs, those of the
		// last one enter the CA into webhooks that are new, with the new version's permissions.
		if err := r.writer.Update(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("entering the CA into the %T %s: %w", o, r.Configuration, err)
		}
	}
	return nil
}

// clientConfigs are those of all webhooks of a configuration, none if it was not found.
func clientConfigs(configuration client.Object) (configs []*admissionregistrationv1.WebhookClientConfig) {
	switch c := configuration.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			configs = append(configs, &c.Webhooks[i].ClientConfig)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			configs = append(configs, &c.Webhooks[i].ClientConfig)
		}
	}
	return configs
}

// enter changes webhooks in memory, and reports whether it did.
func enter(bundle []byte, configs []*admissionregistrationv1.WebhookClientConfig) (changed bool) {
	for _, c := range configs {
		// More may be trusted than this replica needs: another one may still serve its certificate.
		if !bytes.Contains(c.CABundle, bundle) {
			c.CABundle, changed = bundle, true
		}
	}
	return changed
}
