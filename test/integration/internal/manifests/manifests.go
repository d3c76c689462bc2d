// Package manifests renders the kustomizations of config/, and compares what they permit with what
// API servers were asked for. Start with [Render].
package manifests

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Manifests are the objects of a kustomization.
type Manifests []unstructured.Unstructured

// Render is [framework.Render].
func Render(ctx context.Context, folder string) Manifests {
	GinkgoHelper()
	all, err := framework.Render(ctx, folder)
	Expect(err).NotTo(HaveOccurred())
	return all
}

// Every returns the objects of a kind as T, whose fields are all known.
func Every[T any](m Manifests, kind string) (all []T) {
	GinkgoHelper()
	for _, object := range m {
		if object.GetKind() == kind {
			var typed T
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &typed, true)).To(Succeed())
			all = append(all, typed)
		}
	}
	return all
}

// Named returns the object of a kind and a name.
func Named[T any](m Manifests, kind, name string) T {
	GinkgoHelper()
	return Only[T](slices.DeleteFunc(slices.Clone(m), func(o unstructured.Unstructured) bool { return o.GetName() != name }), kind)
}

// Only returns the one object of a kind.
func Only[T any](m Manifests, kind string) T {
	GinkgoHelper()
	all := Every[T](m, kind)
	Expect(all).To(HaveLen(1), kind)
	return all[0]
}

// Granted lists the permissions that manifests give a ServiceAccount, "verb
// resource.group/subresource". It refuses wildcards, which are never least privilege.
func Granted(m Manifests, namespace, account string) (permissions []string) {
	GinkgoHelper()
	for _, rule := range rules(m, namespace, account) {
		Expect(rule.NonResourceURLs).To(BeEmpty())
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					name, subresource, _ := strings.Cut(resource, "/")
					permissions = append(permissions, permission(verb, group, name, subresource))
				}
			}
		}
	}
	Expect(permissions).NotTo(BeEmpty())
	Expect(permissions).NotTo(ContainElement(ContainSubstring("*")))
	slices.Sort(permissions)
	return slices.Compact(permissions)
}

// rules are those of the roles that manifests bind to a ServiceAccount.
func rules(m Manifests, namespace, account string) (all []rbacv1.PolicyRule) {
	GinkgoHelper()
	rulesOf := map[string][]rbacv1.PolicyRule{}
	for _, kind := range []string{"Role", "ClusterRole"} {
		for _, role := range Every[rbacv1.ClusterRole](m, kind) { // the fields of a Role are among those of a ClusterRole
			rulesOf[kind+" "+role.Name] = role.Rules
		}
		for _, binding := range Every[rbacv1.ClusterRoleBinding](m, kind+"Binding") {
			if slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == account && s.Namespace == namespace }) {
				all = append(all, rulesOf[binding.RoleRef.Kind+" "+binding.RoleRef.Name]...)
			}
		}
	}
	return all
}

// Admit asks an API server, in a dry run, for a pod of a template.
func Admit(ctx context.Context, client kubernetes.Interface, namespace string, template corev1.PodTemplateSpec) error {
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.GenerateName = "try-"
	_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// permission is "verb resource.group/subresource".
func permission(verb, group, resource, subresource string) string {
	name := verb + " " + resource
	if group != "" {
		name += "." + group
	}
	if subresource != "" {
		name += "/" + subresource
	}
	return name
}
