package controllers

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/yaml"
)

// reviews answers like an API server that allows what allow says. It stands in for faults that a real one does not
// show on request.
type reviews struct {
	authorizationclient.SelfSubjectAccessReviewInterface
	allow func(*authorizationv1.ResourceAttributes) (bool, error)
}

func (r reviews) Create(_ context.Context, review *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	allowed, err := r.allow(review.Spec.ResourceAttributes)
	review.Status.Allowed = allowed
	return review, err
}

func TestPreflightListsAllThatIsMissing(t *testing.T) {
	err := Preflight(t.Context(), reviews{allow: func(a *authorizationv1.ResourceAttributes) (bool, error) {
		return a.Verb != "delete" && a.Subresource == "" && a.Namespace == "" && a.Resource != "tokenreviews", nil
	}}, Needs{LeaseNamespace: "home", Reviews: true})
	if err == nil {
		t.Fatal("nothing is missing")
	}
	for _, want := range []string{"delete ipaddresses.networking.k8s.io", "patch servicecidrs.networking.k8s.io/status",
		"update leases.coordination.k8s.io in namespace home", "create tokenreviews.authentication.k8s.io", "config/rbac"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "watch") || strings.Contains(err.Error(), "subjectaccessreviews") {
		t.Errorf("%q names what is allowed", err)
	}
}

func TestPreflightPassesOnWhenAllowedAndFailsWithTheServer(t *testing.T) {
	if err := Preflight(t.Context(), reviews{allow: func(*authorizationv1.ResourceAttributes) (bool, error) { return true, nil }}, Needs{}); err != nil {
		t.Errorf("everything is allowed, and yet: %v", err)
	}
	broken := errors.New("broken")
	if err := Preflight(t.Context(), reviews{allow: func(*authorizationv1.ResourceAttributes) (bool, error) { return false, broken }}, Needs{}); !errors.Is(err, broken) {
		t.Errorf("a server that does not answer gives %v", err)
	}
}

// What is asked for and what config/rbac grants must be the same.
func TestRoleIsWhatThePreflightAsksFor(t *testing.T) {
	text, err := os.ReadFile("../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	var granted, asked []string
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted = append(granted, strings.Join([]string{rule.APIGroups[0], resource, verb}, " "))
			}
		}
	}
	for _, p := range append(permissions(), Needs{Reviews: true}.permissions()...) {
		for _, verb := range p.verbs {
			resource := strings.TrimSuffix(p.resource+"/"+p.subresource, "/")
			asked = append(asked, strings.Join([]string{p.group, resource, verb}, " "))
		}
	}
	slices.Sort(granted)
	slices.Sort(asked)
	if diff := cmp.Diff(asked, granted); diff != "" {
		t.Errorf("config/rbac/role.yaml against the preflight (-asked +granted):\n%s", diff)
	}
}
