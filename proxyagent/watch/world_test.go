package watch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// world is a Source on a fake API server, in a bubble of synctest: its time stands still while anything happens.
type world struct {
	t      *testing.T
	client *fake.Clientset
	source *Source
	log    *lines
	stop   context.CancelFunc
	ended  chan error

	mu      sync.Mutex
	version string // of networking.k8s.io that is served
	// refuse answers an action with an error.
	refuse func(clienttesting.Action) error
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(_, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, args)
}

// with returns the lines that contain all texts.
func (l *lines) with(texts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, line := range l.all {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			out = append(out, line)
		}
	}
	return out
}

// inWorld runs a test on a fake API server that has these objects and serves v1. It starts nothing; see start.
func inWorld(t *testing.T, test func(w *world), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, client: fake.NewClientset(objects...), version: "v1", log: &lines{}}
		w.client.PrependReactor("*", "*", w.react)
		w.client.PrependWatchReactor("*", w.reactWatch)
		w.serve("v1")
		test(w)
	})
}

// start starts a Source and lets happen what happens without the clock.
func (w *world) start(o Options) {
	w.t.Helper()
	o.NodeName = "here"
	o.Logger = funcr.New(w.log.add, funcr.Options{})
	source, err := New(w.client, o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.t.Context())
	w.source, w.stop, w.ended = source, stop, make(chan error, 1)
	go func() { w.ended <- source.Run(ctx) }()
	w.t.Cleanup(stop)
	synctest.Wait()
}

// serve changes which version of networking.k8s.io is served; empty for none.
func (w *world) serve(version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = version
	w.client.Lock()
	defer w.client.Unlock()
	w.client.Resources = nil
	if version != "" {
		w.client.Resources = []*metav1.APIResourceList{{
			GroupVersion: "networking.k8s.io/" + version,
			APIResources: []metav1.APIResource{{Name: "ipaddresses"}, {Name: "servicecidrs"}},
		}}
	}
}

// refusing answers actions with an error from now on; nil ends that.
func (w *world) refusing(refuse func(clienttesting.Action) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = refuse
}

// forbid refuses to list and watch resources.
func (w *world) forbid(resources ...string) {
	w.refusing(func(a clienttesting.Action) error {
		if slices.Contains(resources, a.GetResource().Resource) {
			return apierrors.NewForbidden(a.GetResource().GroupResource(), "", nil)
		}
		return nil
	})
}

func (w *world) verdict(a clienttesting.Action) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	resource := a.GetResource()
	if resource.Group == networkingv1.GroupName && resource.Version != w.version && (a.GetVerb() == "list" || a.GetVerb() == "watch") {
		return apierrors.NewGenericServerResponse(404, a.GetVerb(), resource.GroupResource(), "", "not served", 0, true)
	}
	if w.refuse != nil {
		return w.refuse(a)
	}
	return nil
}

func (w *world) react(a clienttesting.Action) (bool, runtime.Object, error) {
	if a.GetVerb() != "list" && a.GetVerb() != "get" {
		return false, nil, nil
	}
	err := w.verdict(a)
	return err != nil, nil, err
}

// wake reports whether a token is there, and takes it.
func (w *world) wake() bool {
	synctest.Wait()
	select {
	case <-w.source.Wake():
		return true
	default:
		return false
	}
}

func (w *world) isReady() bool {
	synctest.Wait()
	return isClosed(w.source.Ready())
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// take is Take after all events have arrived.
func (w *world) take() model.Changes {
	synctest.Wait()
	return w.source.Take()
}

// set creates or updates an object.
func (w *world) set(o runtime.Object) {
	w.t.Helper()
	ctx := w.t.Context()
	var err error
	switch o := o.(type) {
	case *corev1.Service:
		w.version1(o)
		if _, err = w.client.CoreV1().Services(o.Namespace).Update(ctx, o, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = w.client.CoreV1().Services(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		}
	case *discoveryv1.EndpointSlice:
		w.version1(o)
		if _, err = w.client.DiscoveryV1().EndpointSlices(o.Namespace).Update(ctx, o, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = w.client.DiscoveryV1().EndpointSlices(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		}
	case *corev1.Node:
		w.version1(o)
		if _, err = w.client.CoreV1().Nodes().Update(ctx, o, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = w.client.CoreV1().Nodes().Create(ctx, o, metav1.CreateOptions{})
		}
	case *networkingv1.IPAddress:
		w.version1(o)
		if _, err = w.client.NetworkingV1().IPAddresses().Update(ctx, o, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = w.client.NetworkingV1().IPAddresses().Create(ctx, o, metav1.CreateOptions{})
		}
	case *networkingv1.ServiceCIDR:
		w.version1(o)
		if _, err = w.client.NetworkingV1().ServiceCIDRs().Update(ctx, o, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = w.client.NetworkingV1().ServiceCIDRs().Create(ctx, o, metav1.CreateOptions{})
		}
	case *networkingv1beta1.IPAddress:
		_, err = w.client.NetworkingV1beta1().IPAddresses().Create(ctx, o, metav1.CreateOptions{})
	default:
		w.t.Fatalf("no client for %T", o)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
