package migration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// errMoved says that the cluster is no longer what a step was made for. Nothing was written; a new plan knows better.
var errMoved = errors.New("the cluster has changed since the plan was made")

// apiWriter carries out steps through the API server. The error is errMoved when a step has nothing to do any more, or something else to do.
type apiWriter Sources

func (w apiWriter) apply(ctx context.Context, s Step) error {
	switch s.Do {
	case CreateServiceCIDR, CreateIPAddress:
		return w.create(ctx, s)
	case RelabelIPAddress:
		return w.relabel(ctx, s)
	case ReplaceServiceCIDR, ReplaceIPAddress:
		return w.replace(ctx, s)
	case DeleteIPAddress:
		return w.remove(ctx, s)
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

func (w apiWriter) create(ctx context.Context, s Step) error {
	return guarded(ctx, func() error { return w.API.Create(ctx, s.object(), client.FieldOwner(v1alpha1.ManagerMigration)) })
}

func (w apiWriter) remove(ctx context.Context, s Step) error {
	return guarded(ctx, func() error {
		return w.API.Delete(ctx, s.object(), client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	})
}

// relabel applies the two labels alone, so that there is no moment in which the address is free.
func (w apiWriter) relabel(ctx context.Context, s Step) error {
	ip := networkingv1ac.IPAddress(s.Address.String()).WithAPIVersion(w.APIVersion).
		WithUID(s.UID).WithResourceVersion(s.ResourceVersion).WithLabels(upstream.Labels(s.Address))
	return guarded(ctx, func() error {
		return w.API.Apply(ctx, ip, client.FieldOwner(v1alpha1.ManagerMigration), client.ForceOwnership)
	})
}

// replace deletes and creates: the parent of an IPAddress cannot be changed, and Kubernetes 1.32 takes a ServiceCIDR for immutable.
func (w apiWriter) replace(ctx context.Context, s Step) error {
	if err := w.remove(ctx, s); err != nil {
		return err
	}
	err := w.create(ctx, s)
	for tries := 0; s.Do == ReplaceServiceCIDR && errors.Is(err, errMoved) && tries < 20; tries++ { // somebody may have set a finalizer just now
		if err = sleep(ctx, 100*time.Millisecond); err == nil {
			err = w.create(ctx, s)
		}
	}
	return err
}

const (
	maxPause      = 5 * time.Second // between two tries: an API server that is restarted is back after a few seconds
	internalTries = 5               // of an internal error: a webhook that fails, or etcd without space, answers so for ever
)

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
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		apierrors.IsTimeout(err) || errors.As(err, new(*net.OpError)) || utilnet.IsProbableEOF(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err)
}
