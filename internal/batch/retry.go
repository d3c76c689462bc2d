package batch

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrMoved says that the cluster is not what an item was made for. Nothing was written; plan anew.
var ErrMoved = errors.New("the cluster has changed since the plan was made")

// Guarded repeats a request until it is answered. A guard that does not hold is ErrMoved, and so is
// a name that is taken: it may be our own write of which the answer got lost.
func Guarded(ctx context.Context, request func() error) error {
	err := Retry(ctx, request)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return ErrMoved
	}
	return err
}

// MaxPause is the longest pause between tries: a restarted API server is back within seconds.
const MaxPause = 5 * time.Second

// internalTries is for internal errors: a failing webhook, or a full etcd, answers so for ever.
const internalTries = 5

// Retry repeats a request until ctx ends or the API server, neither away nor overloaded, answers.
func Retry(ctx context.Context, request func() error) error {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: MaxPause}
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
		if Sleep(ctx, min(backoff.Step(), MaxPause)) != nil {
			return err
		}
	}
}

// transient reports whether the same request may well succeed later. Every failed request is a
// net.Error, even after a wrong certificate; only what the network itself says counts.
func transient(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		apierrors.IsTimeout(err) || errors.As(err, new(*net.OpError)) || utilnet.IsProbableEOF(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err)
}

// Sleep waits, but no longer than ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
