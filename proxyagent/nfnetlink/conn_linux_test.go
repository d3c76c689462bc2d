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

func TestAgree(t *testing.T) {
	type answer struct {
		sum uint64
		err error
	}
	cut, broken := nl.ErrDumpInterrupted, errors.New("broken")
	for name, tc := range map[string]struct {
		answers   []answer
		wantErr   error
		wantCalls int
	}{
		"whole":                             {[]answer{{1, nil}}, nil, 1},
		"interrupted twice, and the same":   {[]answer{{0, cut}, {0, cut}}, nil, 2},
		"interrupted, each time another":    {[]answer{{1, cut}, {2, cut}, {1, cut}, {1, cut}}, nil, 4},
		"whole after an interruption":       {[]answer{{1, cut}, {2, nil}}, nil, 2},
		"a part agrees, as both ended soon": {[]answer{{1, syscall.EINTR}, {1, syscall.EINTR}, {2, nil}}, nil, 3},
		"another error":                     {[]answer{{1, cut}, {1, broken}}, broken, 2},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := Agree(t.Context(), func() (uint64, error) {
				calls++
				a := tc.answers[min(calls, len(tc.answers))-1]
				return a.sum, a.err
			})
			if !errors.Is(err, tc.wantErr) || calls != tc.wantCalls {
				t.Errorf("%v after %d calls, want %v after %d", err, calls, tc.wantErr, tc.wantCalls)
			}
		})
	}
}
