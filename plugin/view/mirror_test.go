package view

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework/alone"
)

// heard notes what a mirror tells its handler.
func heard(m interface {
	AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error)
}) *[]string {
	var all []string
	of := func(o any) string {
		m := o.(metav1.Object)
		return m.GetName() + " at " + m.GetResourceVersion()
	}
	_, _ = m.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{ // a mirror returns no error
		AddFunc:    func(o any, initial bool) { all = append(all, fmt.Sprintf("+ %s, first listing: %t", of(o), initial)) },
		UpdateFunc: func(before, o any) { all = append(all, of(before)+" -> "+of(o)) },
		DeleteFunc: func(o any) { all = append(all, "- "+of(o)) },
	})
	return &all
}

func serviceAt(name, version string, ips ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: version, CreationTimestamp: metav1.Unix(1000, 0), Labels: map[string]string{"junk": "x"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: ips},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An informer tells of what each listing adds, changes and no longer has; so does a mirror.
func TestMirrorTellsOfListings(t *testing.T) {
	m := newStore(nil).services
	told := heard(m)
	for _, name := range []string{"a", "b", "c"} {
		must(t, m.put(serviceAt(name, "1", "10.96.0.1", "fd00::1"), 1))
	}
	must(t, m.put(serviceAt("a", "1", "10.96.0.1", "fd00::1"), 2)) // the list has begun anew
	must(t, m.put(serviceAt("b", "2", "10.96.0.1", "fd00::1"), 2))
	must(t, m.complete(2))
	must(t, m.put(serviceAt("d", "3"), 2))
	must(t, m.drop(types.NamespacedName{Namespace: "shop", Name: "a"}))
	must(t, m.drop(types.NamespacedName{Namespace: "shop", Name: "a"}))
	want := []string{"+ a at 1, first listing: true", "+ b at 1, first listing: true", "+ c at 1, first listing: true", "b at 1 -> b at 2", "- c at 1", "+ d at 3, first listing: false", "- a at 1"}
	if diff := cmp.Diff(want, *told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var names []string
	must(t, m.each(t.Context(), func(s *corev1.Service) error {
		names = append(names, s.Name)
		return nil
	}))
	if slices.Sort(names); !slices.Equal(names, []string{"b", "d"}) {
		t.Errorf("it has %v", names)
	}
}

// An object that was deleted and created anew between two listings is told as changed, also where
// etcd was restored between them, and the new one has the resourceVersion of the old one.
func TestMirrorTellsOfAnotherObject(t *testing.T) {
	for _, version := range []string{"1", "2"} {
		m := newStore(nil).services
		told := heard(m)
		must(t, m.put(serviceAt("a", "1", "10.96.0.1", "fd00::1"), 1))
		another := serviceAt("a", version, "10.96.0.2", "fd00::2")
		another.UID = "another"
		must(t, m.put(another, 2))
		must(t, m.complete(2))
		want := []string{"+ a at 1, first listing: true", "a at 1 -> a at " + version}
		if diff := cmp.Diff(want, *told); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// What is read is what the operator's cache has.
func TestStoreReadsWhatItWasGiven(t *testing.T) {
	s := newStore(nil)
	heard(s.services)
	heard(s.addresses)
	given := serviceAt("web", "7", "10.96.0.1", "fd00::1")
	must(t, s.services.put(given, 1))
	want := given.DeepCopy()
	want.Labels = nil
	got := &corev1.Service{}
	must(t, s.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ip := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "fd00::1", UID: "u", ResourceVersion: "8", CreationTimestamp: metav1.Unix(1000, 0), Labels: map[string]string{v1alpha1.LabelBand: "static"}, Finalizers: []string{v1alpha1.FinalizerFormer}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "shop", Name: "web"}},
	}
	must(t, s.addresses.put(ip, 1))
	read := &networkingv1.IPAddress{}
	must(t, s.Get(t.Context(), types.NamespacedName{Name: "fd00::1"}, read))
	if diff := cmp.Diff(ip, read); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := s.Get(t.Context(), types.NamespacedName{Name: "fd00::2"}, read); !apierrors.IsNotFound(err) {
		t.Errorf("what is not there: %v", err)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := s.services.each(ctx, func(*corev1.Service) error { return nil }); err == nil {
		t.Error("an ended context ends nothing")
	}
}

// Whatever authors write into Services, a mirror keeps some hundred bytes of each: 100,000 Services
// and their 200,000 IPAddresses stay far below what a command may occupy. The heap is measured in
// a process of its own.
func TestWhatAMirrorKeeps(t *testing.T) {
	if !alone.Runs(t) {
		return
	}
	const many, limit = 20_000, 400
	s := newStore(nil)
	for _, m := range []interface {
		AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error)
	}{s.services, s.addresses} {
		_, _ = m.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}) // a mirror returns no error
	}
	before := alone.Heap()
	for i := range many {
		o := serviceAt(fmt.Sprintf("service-%06d", i), fmt.Sprint(1000+i), fmt.Sprintf("10.96.%d.%d", i/256, i%256), fmt.Sprintf("fd00::%x", i))
		o.UID = types.UID(fmt.Sprintf("%036d", i))
		o.Annotations = map[string]string{"junk": strings.Repeat("x", 4<<10), v1alpha1.AnnotationRenumbering: strings.Repeat("x", 4<<10)}
		must(t, s.services.put(o, 1))
	}
	ofServices := (alone.Heap() - before) / many
	before = alone.Heap()
	for i := range many {
		o := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("fd00::%x", i), UID: types.UID(fmt.Sprintf("%036d", i)), ResourceVersion: fmt.Sprint(1000 + i), CreationTimestamp: metav1.Unix(1000, 0)}}
		o.Labels = map[string]string{networkingv1.LabelManagedBy: v1alpha1.ManagedByAPIServer, networkingv1.LabelIPAddressFamily: "IPv6", "junk": "x"}
		o.Spec.ParentRef = &networkingv1.ParentReference{Resource: "services", Namespace: "shop", Name: fmt.Sprintf("service-%06d", i)}
		must(t, s.addresses.put(o, 1))
	}
	ofAddresses := (alone.Heap() - before) / many
	t.Logf("a Service %d bytes, an IPAddress %d", ofServices, ofAddresses)
	if ofServices > limit || ofAddresses > limit {
		t.Errorf("a Service is %d bytes and an IPAddress %d, more than %d", ofServices, ofAddresses, limit)
	}
	runtime.KeepAlive(s)
}
