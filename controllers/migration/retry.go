package migration

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

// maxPause bounds the pause between two tries: an API server that is restarted is back after a few seconds.
const maxPause = 5 * time.Second

// internalTries is how often an internal error is taken for a passing one: a webhook that fails, or etcd without space, answers so
// for ever.
const internalTries = 5

// tellEvery is how often somebody who waits says so.
const tellEvery = time.Minute

// retry repeats a request while the API server is away or overloaded, until ctx ends, and returns any other answer.
func retry(ctx context.Context, request func() error) error {
	pause := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 1 << 30, Cap: maxPause}
	start, internal := time.Now(), 0
	for told := (time.Time{}); ; {
		err := request()
		if apierrors.IsInternalError(err) {
			internal++
		}
		if err == nil || !transient(err) || internal > internalTries || ctx.Err() != nil {
			return err
		}
		if now := time.Now(); now.Sub(told) >= tellEvery {
			told = now
			logr.FromContextOrDiscard(ctx).Info("Waiting for the API server", "since", now.Sub(start).Round(time.Second).String(), "answer", err.Error())
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pauseAfter(&pause, err)):
		}
	}
}

// pauseAfter is the next pause, or what the API server asked for if that is longer.
func pauseAfter(b *wait.Backoff, err error) time.Duration {
	pause := min(b.Step(), maxPause)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, time.Duration(seconds)*time.Second)
	}
	return pause
}

// transient reports whether the same request may well succeed later. Every failed request is a net.Error, those that a wrong
// certificate fails included; only what the network itself says counts.
func transient(err error) bool {
	var network net.Error
	switch {
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsInternalError(err),
		apierrors.IsTimeout(err):
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err), utilnet.IsHTTP2ConnectionLost(err),
		errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*net.OpError)):
		return true
	}
	return errors.As(err, &network) && network.Timeout()
}
