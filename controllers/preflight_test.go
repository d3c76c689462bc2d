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

	"github.com/clusterip-operator/clusterip-operator/internal/history"
)

// reviews answers like an API server that allows what allow says, for faults that a real one does
// not show on request.
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
func TestRolesAreWhatThePreflightAsksFor(t *testing.T) {
	const place = "system"
	var granted, asked []string
	for _, file := range []string{"role.yaml", "leader_election_role.yaml", "certificates_role.yaml", "enforcement_role.yaml"} {
		granted = append(granted, grants(t, "../config/rbac/"+file)...)
	}
	needs := Needs{
		LeaseNamespace: place, Reviews: true, Policies: true, Certificates: true,
		Namespace: place, Configuration: "clusterip-operator",
	}
	for _, p := range needs.permissions() {
		for _, verb := range p.verbs {
			asked = append(asked, said(verb, p))
		}
	}
	slices.Sort(granted)
	slices.Sort(asked)
	if diff := cmp.Diff(slices.Compact(asked), slices.Compact(granted)); diff != "" {
		t.Errorf("config/rbac against the preflight (-asked +granted):\n%s", diff)
	}
}

// TestTheHistoryHasARole wants the component to grant what the preflight asks for, of each
// ConfigMap by its name, and the clean-up to reach all of them.
func TestTheHistoryHasARole(t *testing.T) {
	var names []string
	for shard := range history.Shards {
		names = append(names, history.NameOf(shard))
	}
	all := permission{resource: "configmaps", namespace: "clusterip-operator-system", name: strings.Join(names, ",")}
	if diff := cmp.Diff([]string{said("get", all), said("create", all), said("patch", all)}, grants(t, "../config/components/history/role.yaml")); diff != "" {
		t.Errorf("config/components/history (-want +granted):\n%s", diff)
	}
	all.namespace = "system"
	if granted := grants(t, "../config/components/uninstall/role.yaml"); !slices.Contains(granted, said("get", all)) || !slices.Contains(granted, said("delete", all)) {
		t.Error("config/components/uninstall does not reach all ConfigMaps of the history")
	}
	err := Preflight(t.Context(), reviews{allow: func(a *authorizationv1.ResourceAttributes) (bool, error) {
		return !strings.HasPrefix(a.Name, "clusterip-operator-history"), nil
	}}, Needs{History: true, Namespace: "home"})
	if err == nil || !strings.Contains(err.Error(), "patch configmaps clusterip-operator-history-63 in namespace home") {
		t.Errorf("%v does not name what is missing", err)
	}
}

// grants lists the verbs in a file of roles, and of bindings, which grant none by themselves.
func grants(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role struct {
			Metadata metav1.ObjectMeta   `json:"metadata"`
			Rules    []rbacv1.PolicyRule `json:"rules"`
		}
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			all = append(all, spelledOut(rule, role.Metadata.Namespace)...)
		}
	}
	return all
}

func spelledOut(rule rbacv1.PolicyRule, namespace string) (all []string) {
	for _, resource := range rule.Resources {
		name, subresource, _ := strings.Cut(resource, "/")
		p := permission{group: rule.APIGroups[0], resource: name, subresource: subresource, namespace: namespace, name: strings.Join(rule.ResourceNames, ",")}
		for _, verb := range rule.Verbs {
			all = append(all, said(verb, p))
		}
	}
	return all
}

func said(verb string, p permission) string { return verb + " " + p.String() }
