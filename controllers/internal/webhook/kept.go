package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// fieldOwner signs what we write into the Secret and into the webhook configurations.
const fieldOwner = "clusterip-operator-webhook"

// kept is our own certificate, kept in a Secret. Every replica follows the Secret, and every replica runs the rotation: the API server
// takes the first write and refuses the others, which then find nothing to do.
type kept struct {
	Options
	manager manager.Manager
	live    client.Client
	log     logr.Logger
	// dir holds a copy of the certificate, without its key, in which cert-controller wants to see that it has arrived.
	dir string
	// lost takes a token when the Secret is gone.
	lost chan struct{}

	serving serving
}

func newKept(mgr manager.Manager, o Options) (*kept, error) {
	live, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for certificates: %w", err)
	}
	dir, err := os.MkdirTemp("", "clusterip-operator-webhook-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the certificate of the webhooks: %w; let $TMPDIR name a folder that can be written to", err)
	}
	return &kept{
		Options: o, manager: mgr, live: client.WithFieldOwner(live, fieldOwner), log: mgr.GetLogger().WithName("webhook"),
		dir: dir, lost: make(chan struct{}, 1),
	}, nil
}

// NeedLeaderElection is false: every replica serves.
func (k *kept) NeedLeaderElection() bool { return false }

// Start follows the Secret and rotates what is in it.
func (k *kept) Start(ctx context.Context) error {
	defer func() { _ = os.RemoveAll(k.dir) }()
	group, ctx := errgroup.WithContext(ctx)
	for _, work := range []func(context.Context) error{k.follow, k.rotate} {
		group.Go(func() error { return persist(ctx, k.log, work) })
	}
	return group.Wait()
}

// GetCertificate returns the certificate in use.
func (k *kept) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return k.serving.at(time.Now())
}

// prepare makes a Secret for cert-controller to fill, which it does not do. Where there is one, a certificate without all our names is
// taken out of it, for cert-controller looks at the first name alone.
func (k *kept) prepare(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := k.live.Get(ctx, k.secret(), secret)
	if apierrors.IsNotFound(err) {
		return k.create(ctx)
	}
	if err != nil {
		return fmt.Errorf("reading the Secret %s: %w", k.secret(), err)
	}
	if len(secret.Data[certKey]) == 0 || covers(secret.Data[certKey], k.names()) {
		return nil
	}
	delete(secret.Data, certKey)
	delete(secret.Data, keyKey)
	if err := k.live.Update(ctx, secret); err != nil {
		return fmt.Errorf("taking a certificate without our names out of the Secret %s: %w", k.secret(), err)
	}
	return nil
}

func (k *kept) create(ctx context.Context) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.secret().Namespace, Name: k.secret().Name,
			Labels: map[string]string{"app.kubernetes.io/name": "clusterip-operator", "app.kubernetes.io/component": "manager"},
		},
	}
	if err := k.live.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the Secret %s: %w", k.secret(), err)
	}
	return nil
}

// take shows a certificate from now on, or soon. What cannot be used is cert-controller's to replace.
func (k *kept) take(secret *corev1.Secret) {
	if len(secret.Data) == 0 {
		return // cert-controller is about to fill it
	}
	p, err := parsePair(secret.Data)
	if err != nil {
		k.log.Info("The Secret holds no certificate that could be used", "secret", k.secret().String(), "problem", err.Error())
		return
	}
	if k.serving.offer(p, time.Now()) {
		leaf := p.certificate.Leaf
		k.log.Info("The webhooks have a new certificate", "names", leaf.DNSNames, "notAfter", leaf.NotAfter, "authority", p.authority.SerialNumber.String())
	}
	if err := os.WriteFile(filepath.Join(k.dir, certKey), secret.Data[certKey], 0o600); err != nil {
		k.log.Error(err, "The certificate could not be shown to cert-controller")
	}
}
