package deployment_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// manifests are the objects of a kustomization.
type manifests []unstructured.Unstructured

// render is what `kubectl kustomize` makes of a folder.
func render(ctx context.Context, folder string) manifests {
	GinkgoHelper()
	text, err := framework.Kubectl(ctx, "", "kustomize", folder)
	Expect(err).NotTo(HaveOccurred())
	var all manifests
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
func every[T any](m manifests, kind string) []T {
	GinkgoHelper()
	var all []T
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

// named returns the object of a kind and a name.
func named[T any](m manifests, kind, name string) T {
	GinkgoHelper()
	return only[T](slices.DeleteFunc(slices.Clone(m), func(o unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() != name }), kind)
}

// only returns the one object of a kind.
func only[T any](m manifests, kind string) T {
	GinkgoHelper()
	all := every[T](m, kind)
	Expect(all).To(HaveLen(1), kind)
	return all[0]
}
