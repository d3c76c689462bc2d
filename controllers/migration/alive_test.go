package migration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An API server that runs renews its key; that of one which was killed goes after a while.
func TestNoneAlive(t *testing.T) {
	away := errors.New("away")
	for name, tc := range map[string]struct {
		// leases are the keys that are there, and after what time somebody takes them away; 0 for never.
		leases map[string]time.Duration
		before func(call) error
		// want are pieces of the error. wantAfter is when it is known.
		want      []string
		wantAfter time.Duration
	}{
		"none":              {},
		"one was killed":    {leases: map[string]time.Duration{"masterleases/10.1.0.1": 14500 * time.Millisecond}, wantAfter: 15 * time.Second},
		"one runs":          {leases: map[string]time.Duration{"masterleases/10.1.0.1": 0}, want: []string{"10.1.0.1", "stop it first"}, wantAfter: 21 * time.Second},
		"one of two runs":   {leases: map[string]time.Duration{"masterleases/10.1.0.1": time.Second, "masterleases/fd01::1": 0}, want: []string{"at fd01::1,"}, wantAfter: 21 * time.Second},
		"nobody can tell":   {before: func(call) error { return away }, want: []string{"looking for API servers that run: away"}},
		"something similar": {leases: map[string]time.Duration{"masterleases2/10.1.0.1": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, begin := newMemory(), time.Now()
				for key, after := range tc.leases {
					m.put(Write{Key: key, Raw: []byte("lease")})
					if after > 0 {
						time.AfterFunc(after, func() { m.remove(key) })
					}
				}
				m.before = tc.before
				err := NoneAlive(t.Context(), m)
				if (err == nil) != (tc.want == nil) {
					t.Errorf("error %v", err)
				}
				for _, want := range tc.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v does not say %q", err, want)
					}
				}
				if spent := time.Since(begin); spent > tc.wantAfter {
					t.Errorf("it took %v", spent)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.put(Write{Key: "masterleases/10.1.0.1", Raw: []byte("lease")})
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		if err := NoneAlive(ctx, m); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("told to end: %v", err)
		}
	})
}
