package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// attemptTimeout is how long one attempt may take. A member that is frozen keeps its connections open and says nothing.
const attemptTimeout = 10 * time.Second

// errClosed says that the store was closed by its owner.
var errClosed = errors.New("the connection to etcd was closed")

// newBackoff begins at a tenth of a second, the time of an election, and ends at five seconds.
func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 5 * time.Second}
}

// hopeless is an error that insist does not retry, whatever it is.
type hopeless struct{ error }

// Unwrap returns what makes it hopeless.
func (h *hopeless) Unwrap() error { return h.error }

// ask puts a question to etcd until it is answered, be it with a refusal.
func (s *Store) ask(ctx context.Context, what string, question func(context.Context) error) error {
	err := insist(ctx, s.attemptTimeout, question, func(err error) error { return s.notice(ctx, what, err) })
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	s.noticeBack(ctx)
	return nil
}

// notice logs that etcd is away, if it has not been known yet. It returns an error if waiting is in vain.
func (s *Store) notice(ctx context.Context, what string, err error) error {
	if s.client.Ctx().Err() != nil {
		return errClosed
	}
	if !s.away.Swap(true) {
		klog.FromContext(ctx).Info("waiting for etcd", "endpoints", strings.Join(s.client.Endpoints(), ","), "to", what, "because", reason(err))
	}
	return nil
}

func (s *Store) noticeBack(ctx context.Context) {
	if s.away.Load() && s.away.Swap(false) {
		klog.FromContext(ctx).Info("etcd answers again", "endpoints", strings.Join(s.client.Endpoints(), ","))
	}
}

// insist puts a question again and again until it is answered, with a refusal maybe, or ctx ends. notice is told of each failure that
// is no answer, and may put an end to it.
func insist(ctx context.Context, attemptTimeout time.Duration, question func(context.Context) error, notice func(error) error) error {
	backoff := newBackoff()
	for {
		err := attempt(ctx, attemptTimeout, question)
		if err == nil || (ctx.Err() == nil && !passing(err)) {
			return err
		}
		if ctx.Err() == nil && notice != nil {
			if err := notice(err); err != nil {
				return err
			}
		}
		if pause(ctx, inTime(ctx, backoff.Step())) != nil {
			return fmt.Errorf("%w; the last that was heard of etcd: %s", context.Cause(ctx), reason(err))
		}
	}
}

func attempt(ctx context.Context, attemptTimeout time.Duration, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return question(ctx)
}

// inTime cuts a pause down to half of what is left until ctx ends, so that the time which is given is used to its end. The last tenth of
// a second is not worth another attempt.
func inTime(ctx context.Context, d time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return d
	}
	return min(d, max(100*time.Millisecond, time.Until(deadline)/2))
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// passing reports whether an error is none of the request but of etcd's momentary state: asking again can help, and a write may have
// taken effect in spite of it.
func passing(err error) bool {
	if errors.As(err, new(*hopeless)) {
		return false
	}
	for _, transient := range []error{
		rpctypes.ErrTooManyRequests, rpctypes.ErrNotCapable, rpctypes.ErrNotLeader, rpctypes.ErrAuthOldRevision,
	} {
		if errors.Is(err, transient) {
			return true
		}
	}
	switch codeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal:
		return true // Internal is a torn stream
	}
	return false
}

// reason is the text of an error of the client without the ceremony of gRPC.
func reason(err error) string {
	if s, is := status.FromError(err); is {
		return s.Message()
	}
	return err.Error()
}

// codeOf returns the gRPC code of an error of the client, which comes in three forms.
func codeOf(err error) codes.Code {
	var known rpctypes.EtcdError
	switch {
	case errors.As(err, &known):
		return known.Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return status.Code(err)
}
