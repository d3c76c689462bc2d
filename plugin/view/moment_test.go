package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// twoKinds is an API server of Services and IPAddresses that notes what it is asked, and when. A
// list of IPAddresses takes five seconds. Each request is followed by a write.
type twoKinds struct {
	services, addresses int   // the versions at first
	err                 error // of a list of a moment
	end                 context.Context

	mu       sync.Mutex
	start    time.Time
	requests int
	asked    []string
}

// note returns the present version of a kind.
func (s *twoKinds) note(what string, list client.ObjectList, of string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, version := "addresses", s.addresses
	if _, ok := list.(*corev1.ServiceList); ok {
		kind, version = "services", s.services
	}
	version += s.requests
	s.requests++
	s.asked = append(s.asked, fmt.Sprintf("%s %s %s%s", time.Since(s.start).Round(time.Second), what, kind, of))
	return fmt.Sprint(version)
}

func (s *twoKinds) list(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	if o.Limit == 1 {
		into.SetResourceVersion(s.note("version", into, ""))
		return nil
	}
	of := ""
	if o.Raw != nil && o.Raw.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		of = " at " + o.Raw.ResourceVersion
	}
	into.SetResourceVersion(s.note("list", into, of))
	if of != "" && s.err != nil {
		return s.err
	}
	if _, ok := into.(*corev1.ServiceList); !ok {
		time.Sleep(5 * time.Second)
	}
	return nil
}

func (s *twoKinds) watch(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
	s.note("watch", list, "")
	w := watch.NewFake()
	context.AfterFunc(s.end, w.Stop)
	return w, nil
}

// followed is what a view lists and watches in so long, in order.
func (s *twoKinds) followed(t *testing.T, long time.Duration) (all []string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), long)
		defer end()
		s.start, s.end = time.Now(), ctx
		v := &View{cache: newStore(nil), failed: make(chan error, 1)}
		_, _ = v.cache.services.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})  // a mirror
		_, _ = v.cache.addresses.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}) // returns no error
		v.followTogether(ctx, Cluster{Live: interceptor.NewClient(nil, interceptor.Funcs{List: s.list, Watch: s.watch}), Page: 500})
		<-ctx.Done()
		synctest.Wait()
		all = slices.DeleteFunc(s.asked, func(a string) bool { return strings.Contains(a, "version") })
		slices.Sort(all)
	})
	return all
}

// Services and IPAddresses are listed as of one moment, and stay so for a while after the slower of
// the two lists.
func TestFollowTogether(t *testing.T) {
	behind := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonTimeout,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}}}}
	present := []string{"0s list addresses", "0s list services"}
	moment := []string{"0s list addresses at 101", "0s list services at 101"}
	for name, tc := range map[string]struct {
		server *twoKinds
		want   []string
	}{
		"one etcd":                 {&twoKinds{services: 100, addresses: 100}, moment},
		"two etcds":                {&twoKinds{services: 100, addresses: 50}, present},
		"two, the other one ahead": {&twoKinds{services: 50, addresses: 100}, present},
		"the moment is forgotten":  {&twoKinds{services: 100, addresses: 100, err: apierrors.NewResourceExpired("too old")}, slices.Concat(moment, present)},
		"the API server is behind": {&twoKinds{services: 100, addresses: 100, err: behind}, slices.Concat(moment, present)},
	} {
		t.Run(name, func(t *testing.T) {
			want := append(slices.Clone(tc.want), "7s watch addresses", "7s watch services")
			slices.Sort(want)
			if got := tc.server.followed(t, 7500*time.Millisecond); !slices.Equal(got, want) {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}
