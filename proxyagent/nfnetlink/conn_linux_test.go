package nfnetlink

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink/nl"
)

func TestAgain(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		answers   []error
		wantErr   error
		wantCalls int
	}{
		"after an interruption":             {[]error{nl.ErrDumpInterrupted, syscall.EINTR, nil}, nil, 3},
		"another error":                     {[]error{syscall.EINTR, broken}, broken, 2},
		"interrupted for ever":              {[]error{syscall.EINTR}, syscall.EINTR, tries},
		"a dump that is always interrupted": {[]error{nl.ErrDumpInterrupted}, nl.ErrDumpInterrupted, tries},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := Again(t.Context(), func() error {
				calls++
				return tc.answers[min(calls, len(tc.answers))-1]
			})
			if !errors.Is(err, tc.wantErr) || calls != tc.wantCalls {
				t.Errorf("%v after %d calls, want %v after %d", err, calls, tc.wantErr, tc.wantCalls)
			}
		})
	}
}

func TestAgainEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := Again(ctx, func() error {
		calls++
		cancel()
		return syscall.EINTR
	})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
