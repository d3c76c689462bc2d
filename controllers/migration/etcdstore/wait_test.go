package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

var (
	errRefused  = status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`)
	errCutOff   = status.Error(codes.Unavailable, "error reading from server: EOF")
	errMistaken = status.Error(codes.InvalidArgument, "etcdserver: request is too large")
)

// TestErrors sorts what the client may return: whether to ask again, and whether a transaction may have taken effect.
func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		err                 error
		passing, mayArrived bool
	}{
		{nil, false, false},
		{errRefused, true, false},
		{errCutOff, true, true},
		{fmt.Errorf("wrapped: %w", errCutOff), true, true},
		{context.DeadlineExceeded, true, true},
		{context.Canceled, true, true},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), true, true},
		{status.Error(codes.Internal, "stream terminated by RST_STREAM"), true, true},
		{rpctypes.ErrTimeout, true, true},
		{rpctypes.ErrNoLeader, true, true},
		{rpctypes.ErrLeaderChanged, true, true},
		{rpctypes.ErrTooManyRequests, true, true},
		{rpctypes.ErrNotCapable, true, true},
		{&hopeless{errCutOff}, false, false},
		{errMistaken, false, false},
		{rpctypes.ErrNoSpace, false, false},
		{rpctypes.ErrPermissionDenied, false, false},
		{rpctypes.ErrFutureRev, false, false},
		{rpctypes.ErrCorrupt, false, false},
		{migration.ErrCompacted, false, false},
		{errors.New("something else"), false, false},
	} {
		if got := tc.err != nil && passing(tc.err); got != tc.passing {
			t.Errorf("passing(%v) = %t", tc.err, got)
		}
		if got := mayHaveArrived(tc.err); got != tc.mayArrived {
			t.Errorf("mayHaveArrived(%v) = %t", tc.err, got)
		}
	}
}

// TestInsist runs on a clock of its own.
func TestInsist(t *testing.T) {
	for name, tc := range map[string]struct {
		answers           []error // the last one is given for ever
		bound             time.Duration
		wantAtMost        time.Duration
		wantErr           error
		wantAsked, atMost int
	}{
		"an answer":                {[]error{nil}, 0, 0, nil, 1, 1},
		"a refusal":                {[]error{errMistaken}, 0, 0, errMistaken, 1, 1},
		"away for a moment":        {[]error{errRefused, errCutOff, nil}, 0, time.Second, nil, 3, 3},
		"away, then a refusal":     {[]error{errRefused, errMistaken}, 0, time.Second, errMistaken, 2, 2},
		"away longer than ctx":     {[]error{errRefused}, time.Minute, time.Minute, context.DeadlineExceeded, 10, 30},
		"an hour of being away":    {repeat(errCutOff, 600), 0, time.Hour, nil, 601, 601},
		"not one that gets better": {[]error{&hopeless{errCutOff}}, 0, 0, errCutOff, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				if tc.bound > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), tc.bound)
				}
				defer cancel()
				start, asked, noticed := time.Now(), 0, 0
				err := insist(ctx, attemptTimeout, func(context.Context) error {
					asked++
					if len(tc.answers) < asked {
						return last(tc.answers)
					}
					return tc.answers[asked-1]
				}, func(error) error { noticed++; return nil })
				if !errors.Is(err, tc.wantErr) {
					t.Errorf("error %v, want %v", err, tc.wantErr)
				}
				if asked < tc.wantAsked || asked > tc.atMost || noticed < asked-1 {
					t.Errorf("asked %d times, noticed %d failures, want %d to %d", asked, noticed, tc.wantAsked, tc.atMost)
				}
				if took := time.Since(start); took > tc.wantAtMost {
					t.Errorf("took %s, want at most %s", took, tc.wantAtMost)
				}
			})
		})
	}
}

// repeat returns an error n times, and then none.
func repeat(err error, n int) []error {
	all := make([]error, n, n+1)
	for i := range all {
		all[i] = err
	}
	return append(all, nil)
}

func last(errs []error) error { return errs[len(errs)-1] }

// TestInsistOnSilence asks somebody who never answers: each attempt has its time, and ctx ends it all.
func TestInsistOnSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		asked := 0
		err := insist(ctx, attemptTimeout, func(ctx context.Context) error {
			asked++
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		if !errors.Is(err, context.DeadlineExceeded) || asked < 4 || asked > 6 {
			t.Errorf("asked %d times: %v", asked, err)
		}
	})
}

// TestInsistUsesItsTime asks somebody who comes in time, though late: no pause is longer than what is left.
func TestInsistUsesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), openTimeout)
		defer cancel()
		start := time.Now()
		err := insist(ctx, attemptTimeout, func(context.Context) error {
			if time.Since(start) < openTimeout*8/10 {
				return errRefused
			}
			return nil
		}, nil)
		if err != nil {
			t.Error(err)
		}
	})
}

// TestInsistEnds wants an end when notice says so.
func TestInsistEnds(t *testing.T) {
	err := insist(t.Context(), attemptTimeout, func(context.Context) error { return errCutOff }, func(error) error { return errClosed })
	if !errors.Is(err, errClosed) {
		t.Errorf("error %v, want %v", err, errClosed)
	}
}
