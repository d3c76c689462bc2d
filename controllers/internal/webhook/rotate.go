package webhook

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// checkEvery is how often cert-controller looks whether a certificate nears its end, beside every change of the Secret. It renews 90 days
// before.
const checkEvery = time.Hour

// attempts numbers the rotators of this process, for controllers must have different names.
var attempts atomic.Int64

// rotate runs a cert-controller until ctx ends or it fails. Its failures would end the manager that it was added to, and it can be
// started only once: so each attempt is a new one, on a stage of its own.
func (k *kept) rotate(ctx context.Context) error {
	if err := k.prepare(ctx); err != nil {
		return err
	}
	s := &stage{Manager: k.manager, writer: writer{Client: k.live, kept: k}}
	if err := rotator.AddRotator(s, k.rotator()); err != nil {
		return fmt.Errorf("setting up cert-controller: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range s.runnables {
		group.Go(func() error { return r.Start(ctx) })
	}
	group.Go(func() error { return k.replaceLost(ctx) })
	return group.Wait()
}

func (k *kept) rotator() *rotator.CertRotator {
	return &rotator.CertRotator{
		SecretKey: k.secret(), CertDir: k.dir, CertName: certKey, KeyName: keyKey,
		CAName: "clusterip-operator-webhook-ca", CAOrganization: "clusterip-operator",
		DNSName: k.serverName(), ExtraDNSNames: k.DNSNames,
		Webhooks: []rotator.WebhookInfo{
			{Name: k.Configuration, Type: rotator.Mutating}, {Name: k.Configuration, Type: rotator.Validating},
		},
		RotationCheckFrequency: checkEvery,
		ControllerName:         fmt.Sprintf("webhook-certificates-%d", attempts.Add(1)),
		IsReady:                make(chan struct{}),
	}
}

// replaceLost makes a new Secret whenever it is gone; cert-controller fills it.
func (k *kept) replaceLost(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.lost:
			if err := k.prepare(ctx); err != nil {
				return err
			}
		}
	}
}

// stage is the manager as cert-controller sees it: what it adds is kept for an attempt, and what it writes goes through writer.
type stage struct {
	manager.Manager
	writer    client.Client
	runnables []manager.Runnable
}

// Add keeps a runnable.
func (s *stage) Add(r manager.Runnable) error {
	s.runnables = append(s.runnables, r)
	return nil
}

// GetClient returns the writer.
func (s *stage) GetClient() client.Client { return s.writer }
