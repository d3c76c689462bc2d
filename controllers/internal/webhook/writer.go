package webhook

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writer is how cert-controller writes. It adds the authority in use to every new one, in the Secret and in the webhook configurations:
// cert-controller alone would replace it, in one as in the other, and calls would fail until replicas and API servers have all changed over.
type writer struct {
	client.Client
	kept *kept
}

// Update writes the Secret, or a webhook configuration.
func (w writer) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	inUse, now := w.kept.serving.authority(), time.Now()
	switch o := o.(type) {
	case *corev1.Secret:
		if o.Data != nil {
			o.Data[authorityKey] = bundle(o.Data[authorityKey], inUse, now)
		}
	case *unstructured.Unstructured:
		if err := trust(o, inUse, now); err != nil {
			return fmt.Errorf("adding the authority in use to %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return w.Client.Update(ctx, o, opts...)
}

// trust adds an authority to those that each webhook of a configuration is trusted by.
func trust(configuration *unstructured.Unstructured, inUse *x509.Certificate, now time.Time) error {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil || len(webhooks) == 0 {
		return err
	}
	for _, w := range webhooks {
		fields, ok := w.(map[string]any)
		if !ok {
			return fmt.Errorf("a webhook is a %T", w)
		}
		text, _, err := unstructured.NestedString(fields, "clientConfig", "caBundle")
		if err != nil {
			return err
		}
		trusted, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fmt.Errorf("decoding the authorities: %w", err)
		}
		text = base64.StdEncoding.EncodeToString(bundle(trusted, inUse, now))
		if err := unstructured.SetNestedField(fields, text, "clientConfig", "caBundle"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}
