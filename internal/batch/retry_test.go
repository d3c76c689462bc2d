package batch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var anyResource = schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}

func TestTransient(t *testing.T) {
	dial := func(err error) error {
		return &url.Error{Op: "Post", URL: "https://10.0.0.1", Err: &net.OpError{Op: "dial", Err: err}}
	}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"too many requests":       {apierrors.NewTooManyRequests("slowly", 1), true},
		"internal error":          {apierrors.NewInternalError(errors.New("etcd has no leader")), true},
		"refused":                 {dial(syscall.ECONNREFUSED), true},
		"in the middle of a body": {io.ErrUnexpectedEOF, true},
		"a slow network":          {&net.DNSError{IsTimeout: true}, true},
		"conflict":                {apierrors.NewConflict(anyResource, "10.0.0.5", errors.New("changed")), false},
		"invalid":                 {apierrors.NewBadRequest("what?"), false},
		"told to end":             {context.Canceled, false},
		"out of time":             {fmt.Errorf("listing: %w", context.DeadlineExceeded), false},
		"a wrong certificate":     {&url.Error{Op: "Get", URL: "https://10.0.0.1", Err: x509.UnknownAuthorityError{}}, false},
		"anything else":           {errors.New("no idea"), false},
	} {
		if got := transient(tc.err); got != tc.want {
			t.Errorf("%s is transient: %v (%v)", name, got, tc.err)
		}
	}
}

// A request is repeated with growing, bounded pauses until it has another answer.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin, done := time.Now(), errors.New("done")
		err := Retry(t.Context(), func() error {
			if at = append(at, time.Since(begin)); len(at) == 12 {
				return done
			}
			return apierrors.NewServiceUnavailable("starting")
		})
		if !errors.Is(err, done) || len(at) != 12 {
			t.Fatalf("after %d tries: %v", len(at), err)
		}
		if at[1] > 200*time.Millisecond {
			t.Errorf("the first pause is %v", at[1])
		}
		for i := 1; i < len(at); i++ {
			if pause := at[i] - at[i-1]; pause > MaxPause {
				t.Errorf("pause %d is %v", i, pause)
			}
		}
		if last := at[11] - at[10]; last < MaxPause/2 {
			t.Errorf("after ten tries the pause is still %v", last)
		}
	})
}

func TestRetryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		begin := time.Now()
		if err := Retry(ctx, func() error { return apierrors.NewServiceUnavailable("away") }); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("what was waited for gets lost: %v", err)
		}
		if spent := time.Since(begin); spent != time.Minute {
			t.Errorf("it ended after %v, its context after 1m", spent)
		}

		stop()
		tries := 0
		if err := Retry(ctx, func() error { tries++; return io.ErrUnexpectedEOF }); err == nil || tries != 1 {
			t.Errorf("with a context that has ended it tried %d times: %v", tries, err)
		}
	})
}
