package deployment_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kustomizations are the folders under config/ with a kustomization.yaml, by its kind.
func kustomizations() (kustomizations, components []string) {
	GinkgoHelper()
	Expect(filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "kustomization.yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var kind struct{ Kind string }
		if err := yaml.Unmarshal(content, &kind); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if kind.Kind == "Component" {
			components = append(components, filepath.Dir(path))
		} else {
			kustomizations = append(kustomizations, filepath.Dir(path))
		}
		return nil
	})).To(Succeed())
	return kustomizations, components
}

// overlay writes a kustomization of config/default with components, as an admin would beside a clone.
func overlay(components ...string) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	relative := func(path string) string {
		GinkgoHelper()
		absolute, err := filepath.Abs(path)
		Expect(err).NotTo(HaveOccurred())
		rel, err := filepath.Rel(dir, absolute)
		Expect(err).NotTo(HaveOccurred())
		return rel
	}
	content := "resources:\n- " + relative(defaults) + "\ncomponents:\n"
	for _, component := range components {
		content += "- " + relative(component) + "\n"
	}
	Expect(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600)).To(Succeed())
	return dir
}

// withWebhooks leaves those out that take the webhooks away.
func withWebhooks(components []string) []string {
	return without(components, "without-webhook", "service-cluster-ip-range")
}

// without leaves components of these names out.
func without(components []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(components), func(c string) bool { return slices.Contains(names, filepath.Base(c)) })
}

// places are the namespaces that manifests mention, where a role or a binding points to an account included.
func places(m manifests) (all []string) {
	for _, object := range m {
		if object.GetKind() == "Namespace" {
			all = append(all, object.GetName())
		}
		if object.GetNamespace() != "" {
			all = append(all, object.GetNamespace())
		}
		subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
		for _, subject := range subjects {
			place, _, _ := unstructured.NestedString(subject.(map[string]any), "namespace")
			all = append(all, place)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Most of these are switched on by few. Each has to be as good as the one that everybody uses.
var _ = Describe("Every kustomization", func() {
	expectSound := func(ctx context.Context, path, name string) {
		GinkgoHelper()
		m := render(ctx, path)
		Expect(m).NotTo(BeEmpty(), name)
		Expect(m).To(HaveEach(HaveField("GetName()", Not(BeEmpty()))), name)
		Expect(places(m)).NotTo(ContainElement("system"), "%s: a namespace that is only a place holder", name)
	}

	It("renders", func(ctx SpecContext) {
		all, _ := kustomizations()
		Expect(len(all)).To(BeNumerically(">=", 6))
		for _, path := range all {
			if name := filepath.Base(path); name == "manager" || name == "rbac" {
				Expect(render(ctx, path)).NotTo(BeEmpty(), path) // the halves of config/default, which places them
				continue
			}
			expectSound(ctx, path, path)
		}
	})

	It("renders as a component of config/default", func(ctx SpecContext) {
		_, components := kustomizations()
		Expect(len(components)).To(BeNumerically(">=", 3))
		plain := len(render(ctx, defaults))
		for _, component := range components {
			expectSound(ctx, overlay(component), component)
		}
		Expect(len(render(ctx, overlay(withWebhooks(components)...)))).To(BeNumerically(">", plain))
	})

	// Rendering knows no types. The samples are really applied elsewhere: their namespace has to exist.
	It("is taken by the API server with all its fields", func(ctx SpecContext) {
		_, components := kustomizations()
		components = without(components, "prometheus", "cert-manager") // need the CRDs of other projects
		for _, path := range []string{overlay(components...), overlay(withWebhooks(components)...), uninstall} {
			kubectl(ctx, c, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", path)
		}
	})
})
