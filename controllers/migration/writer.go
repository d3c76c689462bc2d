package migration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-logr/logr"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// errMoved says that the cluster is no longer what a step was made for. Nothing was written; a new plan knows better.
var errMoved = errors.New("the cluster has changed since the plan was made")

// writer carries out steps. Each is guarded by what the plan saw.
type writer interface {
	// apply carries out a step. The error is errMoved when the step has nothing to do any more, or something else to do.
	apply(ctx context.Context, s Step) error
}

// apiWriter writes through an API server.
type apiWriter struct {
	client     client.Client
	apiVersion string
}

func (w apiWriter) apply(ctx context.Context, s Step) error {
	switch s.Do {
	case CreateServiceCIDR:
		return w.create(ctx, defaultServiceCIDR(s))
	case ReplaceServiceCIDR:
		return w.replaceCIDR(ctx, s)
	case CreateIPAddress:
		return w.create(ctx, s.object())
	case RelabelIPAddress:
		return w.relabel(ctx, s)
	case ReplaceIPAddress:
		if err := w.remove(ctx, s.object(), s); err != nil {
			return err
		}
		return w.create(ctx, s.object())
	case DeleteIPAddress:
		return w.remove(ctx, s.object(), s)
	default:
		return fmt.Errorf("the API server cannot carry out %q", s.Do)
	}
}

// guarded repeats a request until it is answered. A guard that does not hold is errMoved, and so is a name that is taken: it may be our
// own write of which the answer got lost.
func guarded(ctx context.Context, request func() error) error {
	err := retry(ctx, request)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return errMoved
	}
	return err
}

func (w apiWriter) create(ctx context.Context, o client.Object) error {
	return guarded(ctx, func() error {
		o.SetResourceVersion("") // of a try whose answer got lost
		return w.client.Create(ctx, o, client.FieldOwner(v1alpha1.ManagerMigration))
	})
}

func (w apiWriter) remove(ctx context.Context, o client.Object, s Step) error {
	return guarded(ctx, func() error {
		return w.client.Delete(ctx, o, client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	})
}

// relabel applies the two labels alone, so that there is no moment in which the address is free.
func (w apiWriter) relabel(ctx context.Context, s Step) error {
	ip := networkingv1ac.IPAddress(s.Address.String()).WithAPIVersion(w.apiVersion).
		WithUID(s.UID).WithResourceVersion(s.ResourceVersion).WithLabels(upstream.Labels(s.Address))
	return guarded(ctx, func() error {
		return w.client.Apply(ctx, ip, client.FieldOwner(v1alpha1.ManagerMigration), client.ForceOwnership)
	})
}

// replaceCIDR deletes the default ServiceCIDR and creates it as it should be. Kubernetes 1.32 takes the object for immutable.
func (w apiWriter) replaceCIDR(ctx context.Context, s Step) error {
	err := w.remove(ctx, defaultServiceCIDR(s), s)
	if err != nil {
		return err
	}
	for range 20 { // somebody may have set a finalizer just now
		if err = w.create(ctx, defaultServiceCIDR(s)); !errors.Is(err, errMoved) {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return err
}

func defaultServiceCIDR(s Step) *networkingv1.ServiceCIDR {
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: defaultName}}
	for _, p := range s.CIDRs {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, p.String())
	}
	return cidr
}

// maxPause bounds the pause between two tries: an API server that is restarted is back after a few seconds.
const maxPause = 5 * time.Second

// internalTries is how often an internal error is taken for a passing one: a webhook that fails, or etcd without space, answers so for ever.
const internalTries = 5

// retry repeats a request while the API server is away or overloaded, until ctx ends, and returns any other answer.
func retry(ctx context.Context, request func() error) error {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: maxPause}
	internal := 0
	for told := (time.Time{}); ; {
		err := request()
		if apierrors.IsInternalError(err) {
			internal++
		}
		if err == nil || !transient(err) || internal > internalTries {
			return err
		}
		if time.Since(told) >= time.Minute {
			told = time.Now()
			logr.FromContextOrDiscard(ctx).Info("Waiting for the API server", "answer", err.Error())
		}
		if sleep(ctx, min(backoff.Step(), maxPause)) != nil {
			return err
		}
	}
}

// transient reports whether the same request may well succeed later. Every failed request is a net.Error, those that a wrong
// certificate fails included; only what the network itself says counts.
func transient(err error) bool {
	switch {
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsInternalError(err),
		apierrors.IsTimeout(err):
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	}
	return errors.As(err, new(*net.OpError)) || utilnet.IsProbableEOF(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err)
}
