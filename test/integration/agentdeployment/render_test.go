package agentdeployment_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// manifests are the objects of a kustomization.
type manifests []unstructured.Unstructured

// render is what `kubectl kustomize` makes of a folder.
func render(ctx context.Context, folder string) (all manifests) {
	GinkgoHelper()
	text, err := framework.Kubectl(ctx, "", "kustomize", folder)
	Expect(err).NotTo(HaveOccurred())
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		Expect(err).NotTo(HaveOccurred())
		object := unstructured.Unstructured{}
		Expect(yaml.Unmarshal(document, &object.Object)).To(Succeed())
		all = append(all, object)
	}
}

// every returns the objects of a kind as T.
func every[T any](m manifests, kind string) (all []T) {
	GinkgoHelper()
	for _, object := range m {
		if object.GetKind() != kind {
			continue
		}
		var typed T
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &typed, true)).To(Succeed())
		all = append(all, typed)
	}
	return all
}

// daemonSet is the one DaemonSet of a kustomization.
func daemonSet(m manifests) appsv1.DaemonSet {
	GinkgoHelper()
	all := every[appsv1.DaemonSet](m, "DaemonSet")
	Expect(all).To(HaveLen(1))
	return all[0]
}

// container is that of the agent.
func container(m manifests) corev1.Container {
	GinkgoHelper()
	all := daemonSet(m).Spec.Template.Spec.Containers
	Expect(all).To(HaveLen(1))
	return all[0]
}

// configMap returns the ConfigMap of a name before the digest; nil when there is none.
func configMap(m manifests, prefix string) *corev1.ConfigMap {
	GinkgoHelper()
	for _, found := range every[corev1.ConfigMap](m, "ConfigMap") {
		if strings.HasPrefix(found.Name, prefix+"-") {
			return &found
		}
	}
	return nil
}
