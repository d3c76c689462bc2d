package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// component is one of config/components that a value switches on.
type component struct{ folder, value, comment string }

// components are those of the chart. docs/guides/install.md says why others are kustomize's alone.
var components = []component{
	{"cert-manager", "certManager", "cert-manager issues the certificate of the webhooks. It has to be there."},
	{"history", "history", "Keeps who had each address, and when, in ConfigMaps of the namespace. history.owners of config says how many former owners."},
	{"network-policy", "networkPolicy", "Only namespaces labelled metrics=enabled read metrics, and pods reach only API servers and one another."},
	{"prometheus", "prometheus", "A ServiceMonitor and the alerts. The CRDs of the Prometheus operator have to be there."},
	{"without-webhook", "withoutWebhook", "No webhooks: policies keep reservations and cooling addresses, and steer no Service."},
}

func (c component) condition() string { return ".Values.components." + c.value }

// object is one that kustomize has rendered.
type object map[string]any

// at returns what is under keys and positions, nil if there is nothing.
func at(value any, path ...any) any {
	for _, step := range path {
		switch v := value.(type) {
		case object:
			value = v[step.(string)]
		case map[string]any:
			value = v[step.(string)]
		case []any:
			value = v[step.(int)]
		default:
			return nil
		}
	}
	return value
}

func (o object) kind() string { return at(o, "kind").(string) }
func (o object) name() string { return at(o, "metadata", "name").(string) }

// annotate adds annotations.
func (o object) annotate(annotations map[string]string) {
	metadata := o["metadata"].(map[string]any)
	if metadata["annotations"] == nil {
		metadata["annotations"] = map[string]any{}
	}
	for key, value := range annotations {
		metadata["annotations"].(map[string]any)[key] = value
	}
}

// manifests are what kustomize makes of config/.
type manifests struct {
	defaults  []object
	with      map[string][]object // by the folder of the component that is on
	uninstall []object
	sample    object // a ServiceCIDRPolicy, for Artifact Hub to show
}

// image is that of config/.
func (m manifests) image() string {
	for _, o := range m.defaults {
		if o.kind() == "Deployment" {
			return at(o, "spec", "template", "spec", "containers", 0, "image").(string)
		}
	}
	return ""
}

// load renders all that the chart is made of, in memory.
func load(config string) (m manifests, err error) {
	disk, files := os.DirFS(config), filesys.MakeFsInMemory()
	if err := fs.WalkDir(disk, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(disk, path)
		if err != nil {
			return err
		}
		return files.WriteFile(filepath.Join("/config", path), content)
	}); err != nil {
		return m, fmt.Errorf("reading %s: %w", config, err)
	}
	if m.defaults, err = render(files, "/config/default"); err != nil {
		return m, err
	}
	if m.uninstall, err = render(files, "/config/components/uninstall"); err != nil {
		return m, err
	}
	m.with = map[string][]object{}
	for _, c := range components {
		overlay := "/overlay/" + c.folder
		text := fmt.Sprintf("resources: [../../config/default]\ncomponents: [../../config/components/%s]\n", c.folder)
		if err := files.WriteFile(overlay+"/kustomization.yaml", []byte(text)); err != nil {
			return m, err
		}
		if m.with[c.folder], err = render(files, overlay); err != nil {
			return m, err
		}
	}
	sample, err := files.ReadFile("/config/samples/servicecidrpolicy_growth.yaml")
	if err == nil {
		err = yaml.Unmarshal(sample, &m.sample)
	}
	return m, err
}

func render(files filesys.FileSystem, folder string) (all []object, err error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", folder, err)
	}
	for _, resource := range resources.Resources() {
		o, err := resource.Map()
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", folder, err)
		}
		all = append(all, o)
	}
	return all, nil
}
