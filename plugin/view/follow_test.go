package view

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// timed is an API server of Services that notes what it is asked, and when.
type timed struct {
	start   time.Time
	asked   []string
	version string                                   // of lists
	list    func() error                             // nil: none fails
	watch   func(n int) ([]apiruntime.Object, error) // what the nth tells before it ends
	n       int
	failed  []error
}

func (s *timed) note(what string) {
	s.asked = append(s.asked, fmt.Sprintf("%s %s", time.Since(s.start).Round(time.Second), what))
}

func (s *timed) client() client.WithWatch {
	return interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			what := "list"
			if (&client.ListOptions{}).ApplyOptions(options).Limit == 1 {
				what = "version"
			}
			s.note(what)
			into.SetResourceVersion(s.version)
			if s.list != nil {
				return s.list()
			}
			return nil
		},
		Watch: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			s.note("watch from " + (&client.ListOptions{}).ApplyOptions(options).Raw.ResourceVersion)
			s.n++
			told, err := s.watch(s.n)
			if err != nil {
				return nil, err
			}
			w := watch.NewFakeWithChanSize(len(told)+1, false)
			for _, o := range told {
				if _, status := o.(*metav1.Status); status {
					w.Error(o)
					continue
				}
				w.Modify(o)
			}
			w.Stop()
			return w, nil
		},
	})
}

// followed is what a mirror asks in so long.
func (s *timed) followed(t *testing.T, long time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), long)
		defer end()
		s.start = time.Now()
		m := newStore(nil).services
		_, _ = m.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}) // a mirror returns no error
		m.follow(ctx, source{live: s.client(), list: &corev1.ServiceList{}, page: 500, read: func(Page, int) {}, failed: func(err error) { s.failed = append(s.failed, err) }})
	})
}

// count is how many requests are what.
func (s *timed) count(what string) (n int) {
	for _, asked := range s.asked {
		if _, is, _ := strings.Cut(asked, " "); strings.HasPrefix(is, what) {
			n++
		}
	}
	return n
}

func status(err *apierrors.StatusError) apiruntime.Object { return &err.ErrStatus }

func TestFollowPausesLongerAfterEachError(t *testing.T) {
	broken := errors.New("broken")
	s := &timed{version: "5", watch: func(int) ([]apiruntime.Object, error) { return nil, broken }}
	s.followed(t, 10*time.Minute)
	// 1+2+4+8+16 s, then 30 s each, and up to a fifth more.
	if n := s.count("list"); n < 20 || n > 25 {
		t.Errorf("%d lists in ten minutes: %v", n, s.asked)
	}
	s = &timed{version: "5", watch: func(n int) ([]apiruntime.Object, error) {
		if n%4 == 0 {
			return []apiruntime.Object{serviceAt("a", fmt.Sprint(5+n)), status(apierrors.NewInternalError(broken))}, nil
		}
		return nil, broken
	}}
	s.followed(t, 10*time.Minute)
	// 1 s after an error that follows an event, then 2, 4 and 8 s, and up to a fifth more.
	if n := s.count("watch"); n < 130 || n > 165 {
		t.Errorf("%d watches in ten minutes, of which each fourth tells something", n)
	}
}

func TestFollowWatchesOn(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"too many requests": {apierrors.NewTooManyRequests("later", 1), true},
		"unavailable":       {apierrors.NewServiceUnavailable("starting"), true},
		"timeout":           {apierrors.NewTimeoutError("slow", 1), true},
		"server timeout":    {apierrors.NewServerTimeout(corev1.Resource("services"), "watch", 1), true},
		"refused":           {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		"reset":             {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, true},
		"expired":           {apierrors.NewResourceExpired("too old"), false},
		"gone":              {apierrors.NewGenericServerResponse(410, "watch", corev1.Resource("services"), "", "too old", 0, false), false},
		"forbidden":         {apierrors.NewForbidden(corev1.Resource("services"), "", errors.New("no")), false},
		"a future version": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonTimeout,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &timed{version: "9", watch: func(n int) ([]apiruntime.Object, error) {
				if n == 1 {
					return nil, tc.err
				}
				return []apiruntime.Object{serviceAt("a", "9")}, nil
			}}
			s.followed(t, 1500*time.Millisecond)
			want := []string{"0s list", "0s watch from 9", "1s list", "1s watch from 9"}
			if tc.want {
				want[2] = "1s version"
			}
			if !slices.Equal(s.asked, want) {
				t.Errorf("asked %q, want %q", s.asked, want)
			}
		})
	}
}

// An etcd that was restored has a lower version than it had: what was known may never have been.
func TestFollowListsAnewWhatHasGoneBack(t *testing.T) {
	for name, tc := range map[string]struct {
		watch func(s *timed, n int) ([]apiruntime.Object, error)
		want  []string
	}{
		"while it was away": {func(s *timed, n int) ([]apiruntime.Object, error) {
			if n == 1 {
				s.version = "4"
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return nil, nil
		}, []string{"list", "watch from 9", "version", "list", "watch from 4"}},
		"after the end of a watch": {func(s *timed, n int) ([]apiruntime.Object, error) {
			s.version = "4"
			return nil, nil
		}, []string{"list", "watch from 9", "version", "list", "watch from 4"}},
		"as an event tells": {func(s *timed, n int) ([]apiruntime.Object, error) {
			if n == 1 {
				s.version = "4"
				return []apiruntime.Object{serviceAt("a", "4")}, nil
			}
			return nil, nil
		}, []string{"list", "watch from 9", "list", "watch from 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &timed{version: "9"}
			s.watch = func(n int) ([]apiruntime.Object, error) { return tc.watch(s, n) }
			s.followed(t, 10*time.Second)
			var got []string
			for _, asked := range s.asked[:min(len(s.asked), len(tc.want))] {
				_, what, _ := strings.Cut(asked, " ")
				got = append(got, what)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("asked %q, want %q", s.asked, tc.want)
			}
		})
	}
}

// A command answers from what is listed; that a permission is missing it says.
func TestFollowFailsBeforeItHasListed(t *testing.T) {
	forbidden, broken := apierrors.NewForbidden(corev1.Resource("services"), "", errors.New("no")), errors.New("broken")
	for name, tc := range map[string]struct {
		list, watch error
		want        bool
	}{
		"the list fails":         {broken, nil, true},
		"the list is forbidden":  {forbidden, nil, true},
		"the watch fails":        {nil, broken, false},
		"the watch expires":      {nil, apierrors.NewResourceExpired("too old"), false},
		"the watch is forbidden": {nil, forbidden, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &timed{version: "9", list: func() error { return tc.list }, watch: func(int) ([]apiruntime.Object, error) { return nil, tc.watch }}
			s.followed(t, 10*time.Second)
			if got := len(s.failed) > 0; got != tc.want {
				t.Errorf("failed: %v, want %t", s.failed, tc.want)
			}
		})
	}
}
