package dualstack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

var (
	serviceResource = schema.GroupResource{Resource: "services"}
	conflict        = apierrors.NewConflict(serviceResource, "a", errors.New("changed"))
)

// faulty is an API server with every Service, that answers the n-th write with its error, if any.
type faulty struct {
	client.Client
	service func(writes int) *corev1.Service // as it is after so many writes were tried; nil: there is none
	answer  func(write int, name string) error
	patches []string
}

func (f *faulty) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s := f.service(len(f.patches))
	if s == nil {
		return apierrors.NewNotFound(serviceResource, key.Name)
	}
	s.Name, s.ResourceVersion = key.Name, fmt.Sprint(7+len(f.patches))
	s.DeepCopyInto(into.(*corev1.Service))
	return nil
}

func (f *faulty) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	text, err := patch.Data(o)
	f.patches = append(f.patches, string(text))
	if err == nil {
		err = f.answer(len(f.patches), o.GetName())
	}
	if err == nil {
		s := o.(*corev1.Service)
		s.Spec.IPFamilies = []corev1.IPFamily{s.Spec.IPFamilies[0], missing(s)}
	}
	return err
}

func failing(fails bool, err error) error {
	if fails {
		return err
	}
	return nil
}

type untold struct{}

func (untold) Begin(string, int) {}
func (untold) Done(int)          {}
func (untold) End()              {}

func TestRun(t *testing.T) {
	always := func(changes ...func(*corev1.Service)) func(int) *corev1.Service {
		return func(int) *corev1.Service { return short(v4, changes...) }
	}
	for name, tc := range map[string]struct {
		service func(writes int) *corev1.Service
		answer  func(write int, name string) error
		want    string
	}{
		"both are changed":       {always(), func(int, string) error { return nil }, "2 gained"},
		"somebody comes between": {always(), func(write int, _ string) error { return failing(write < 5, conflict) }, "2 gained"},
		"and the owner wants one": {func(writes int) *corev1.Service {
			if writes == 0 {
				return short(v4, policy(corev1.IPFamilyPolicyPreferDualStack))
			}
			return short(v4, policy(corev1.IPFamilyPolicySingleStack))
		}, func(int, string) error { return conflict }, "0 gained, left a: its ipFamilyPolicy is not PreferDualStack, left b: its ipFamilyPolicy is not PreferDualStack"},
		"somebody never ends": {always(), func(_ int, name string) error { return failing(name == "a", conflict) }, "1 gained, refused a: another client edits it all the time"},
		"one is refused": {always(), func(_ int, name string) error {
			return failing(name == "a", apierrors.NewForbidden(serviceResource, "a", nil))
		}, "1 gained, refused a: services \"a\" is forbidden"},
		"nobody may":             {always(), func(int, string) error { return apierrors.NewUnauthorized("who?") }, "0 gained, error service ns/a: who?"},
		"one family":             {always(headless), func(int, string) error { return apierrors.NewInvalid(schema.GroupKind{}, "a", nil) }, "0 gained, refused a: "},
		"both are there already": {always(doubled), func(int, string) error { return errors.New("written") }, "0 gained, 2 had"},
		"both are gone":          {func(int) *corev1.Service { return nil }, nil, "0 gained, left a: it is gone, left b: it is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := Plan{Services: []Item{{Namespace: "ns", Name: "a", UID: "one"}, {Namespace: "ns", Name: "b", UID: "one"}}}
			r, err := Runner{API: &faulty{service: tc.service, answer: tc.answer}, Pace: batch.Pace{Progress: untold{}}}.Run(t.Context(), plan)
			got := fmt.Sprintf("%d gained", r.Gained)
			if r.Had > 0 {
				got += fmt.Sprintf(", %d had", r.Had)
			}
			for _, i := range r.Left {
				got += fmt.Sprintf(", left %s: %s", i.Name, i.Reason)
			}
			for _, i := range r.Refused {
				got += fmt.Sprintf(", refused %s: %s", i.Name, i.Reason)
			}
			if err != nil {
				got += ", error " + err.Error()
			}
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// A write names the version looked at, and families only where no address tells which is first.
func TestWrite(t *testing.T) {
	for want, s := range map[string]*corev1.Service{
		`{"metadata":{"resourceVersion":"7"},"spec":{"ipFamilies":null}}`:            short(v6),
		`{"metadata":{"resourceVersion":"7"},"spec":{"ipFamilies":["IPv6","IPv4"]}}`: short(v6, headless),
	} {
		f := &faulty{answer: func(int, string) error { return nil }}
		s.ResourceVersion = "7"
		if err := (Runner{API: f}).write(t.Context(), s); err != nil || len(f.patches) != 1 || f.patches[0] != want {
			t.Errorf("it writes %s, %v; want %s", f.patches, err, want)
		}
	}
}
