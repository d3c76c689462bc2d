package main

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// What the manifests have, and the chart replaces.
const (
	name           = "clusterip-operator"
	namespace      = "clusterip-operator-system"
	managedBy      = "app.kubernetes.io/managed-by: kustomize"
	configFile     = "config.yaml"
	memoryVariable = "GOMEMLIMIT"
	home           = "https://github.com/clusterip-operator/clusterip-operator"
)

// about is what a release is called.
type about struct{ version, image string }

//go:embed files
var files embed.FS

// chart returns the files of the chart.
func (m manifests) chart(a about) (chart map[string][]byte, err error) {
	a.image = cmp.Or(a.image, m.image())
	values, err := m.values(a.image)
	if err != nil {
		return nil, err
	}
	metadata, err := m.metadata(a)
	if err != nil {
		return nil, err
	}
	chart = map[string][]byte{
		"Chart.yaml": metadata, "values.yaml": valuesFile(values), "values.schema.json": []byte(jsonOf(schemaFile(values))),
		"README.md": []byte(m.fill("README.md", a) + table(values)), "templates/NOTES.txt": []byte(m.fill("NOTES.txt", a)),
		"templates/check.yaml": []byte(m.fill("check.yaml", a)),
	}
	templates, err := m.templates(a.image)
	for file, text := range templates {
		chart["templates/"+file] = text
	}
	return chart, err
}

// fill completes one of the files, whose own actions are between << and >>.
func (m manifests) fill(file string, a about) string {
	parsed, err := template.New(file).Delims("<<", ">>").ParseFS(files, "files/"+file)
	if err != nil {
		panic(err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, map[string]any{"version": a.version, "home": home, "security": m.podSecurity(), "labels": m.ownLabels()}); err != nil {
		panic(err)
	}
	return text.String()
}

// podSecurity are the labels of config/'s namespace, which belongs to no chart.
func (m manifests) podSecurity() string {
	var labels []string
	for _, o := range m.defaults {
		if o.kind() != "Namespace" {
			continue
		}
		all := at(o, "metadata", "labels").(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if strings.HasPrefix(key, "pod-security.kubernetes.io/") {
				labels = append(labels, fmt.Sprintf("%s=%s", key, all[key]))
			}
		}
	}
	return strings.Join(labels, " ")
}

// templates returns a file for each object. Pods have image, unless a value says otherwise.
func (m manifests) templates(image string) (templates map[string][]byte, err error) {
	versions := []version{{"", byFile(m.defaults, m.uninstall)}}
	for _, c := range components {
		versions = append(versions, version{c.condition(), byFile(m.with[c.folder], m.uninstall)})
	}
	all, err := mergeMappings(versions)
	if err != nil {
		return nil, fmt.Errorf("merging the components: %w", err)
	}
	p := printer{replace: m.replacer()}
	templates = map[string][]byte{}
	for _, f := range all {
		object := f.value.(mapping)
		setValues(&object, image)
		if templates[f.key] != nil {
			return nil, fmt.Errorf("%s: a component makes another object of it", f.key)
		}
		templates[f.key] = p.print(object, f.when)
	}
	return templates, nil
}

// replacer puts into scalars where the chart is installed, and what the name of the ConfigMap says
// of its content: so a new configuration rolls the pods, and those before it keep theirs.
func (m manifests) replacer() *strings.Replacer {
	pairs := []string{namespace, "{{ .Release.Namespace }}"}
	for _, o := range m.defaults {
		if o.kind() == "ConfigMap" {
			base := o.name()[:strings.LastIndex(o.name(), "-")]
			pairs = append(pairs, o.name(), base+"-{{ toYaml .Values.config | sha256sum | trunc 10 }}")
		}
	}
	return strings.NewReplacer(pairs...)
}

// byFile names each object's file. Helm makes namespaces itself; it deletes kinds only if it is
// told, for with a kind go all objects of it; and cleans up after it has deleted all else.
func byFile(objects, uninstall []object) map[string]any {
	all := map[string]any{}
	for _, o := range slices.Concat(objects, uninstall) {
		file := strings.ToLower(o.kind()) + "-" + strings.TrimPrefix(o.name(), name+"-") + ".yaml"
		switch {
		case o.kind() == "Namespace":
			continue
		case o.kind() == "ConfigMap":
			file = "configmap.yaml" // whose name has a digest
		case o.kind() == "CustomResourceDefinition":
			o.annotate(map[string]string{"helm.sh/resource-policy": "keep"})
		case strings.TrimPrefix(o.name(), name+"-") == "uninstall":
			o.annotate(hook(o.kind()))
		}
		all[file] = map[string]any(o)
	}
	return all
}

// hook has Helm make an object of config/components/uninstall, or the NetworkPolicy of its Job,
// once all others are deleted; the Job after what it needs.
func hook(kind string) map[string]string {
	weight := "-1"
	if kind == "Job" {
		weight = "0"
	}
	return map[string]string{
		"helm.sh/hook": "post-delete", "helm.sh/hook-weight": weight, "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
	}
}

// setValues puts actions where an object has what is a value.
func setValues(o *mapping, image string) {
	metadata := o.get("metadata").(mapping)
	addLabels(&metadata)
	o.set("metadata", metadata)
	kind := o.get("kind")
	if kind == "ConfigMap" {
		o.set("data", mapping{{key: configFile, value: literal("toYaml .Values.config")}})
	}
	if kind != "Deployment" && kind != "Job" {
		return
	}
	spec := o.get("spec").(mapping)
	template := spec.get("template").(mapping)
	metadata, pod := template.get("metadata").(mapping), template.get("spec").(mapping)
	container := pod.get("containers").(list)[0].value.(mapping)
	addLabels(&metadata)
	container.set("image", inline(fmt.Sprintf(".Values.image | default %q | quote", image)))
	pod.set("nodeSelector", block(".Values.nodeSelector"))
	pod.set("tolerations", block(".Values.tolerations"))
	pod = append(pod, field{"imagePullSecrets", ".Values.imagePullSecrets", block(".Values.imagePullSecrets")})
	if kind == "Deployment" {
		spec.set("replicas", inline(".Values.replicas"))
		container.set("resources", block(".Values.resources"))
		for _, variable := range container.get("env").(list) {
			if variable := variable.value.(mapping); variable.get("name") == memoryVariable {
				variable.set("value", inline(".Values.goMemoryLimit | quote"))
			}
		}
	}
	template.set("metadata", metadata)
	template.set("spec", pod)
}

// addLabels lets the admin's labels follow an object's own.
func addLabels(metadata *mapping) {
	labels, _ := metadata.get("labels").(mapping)
	if labels == nil {
		*metadata = append(*metadata, field{"labels", ".Values.labels", block(".Values.labels")})
		return
	}
	for i := range labels {
		if labels[i].key == "app.kubernetes.io/managed-by" {
			labels[i].value = inline(".Release.Service")
		}
	}
	metadata.set("labels", append(labels, field{value: block(".Values.labels")}))
}

// get returns the value of a field, nil if there is none.
func (m mapping) get(key string) any {
	for _, f := range m {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// set changes the value of a field, or adds one.
func (m *mapping) set(key string, value any) {
	for i := range *m {
		if (*m)[i].key == key {
			(*m)[i].value = value
			return
		}
	}
	*m = append(*m, field{key: key, value: value})
}

// metadata is Chart.yaml, with what Artifact Hub shows.
func (m manifests) metadata(a about) ([]byte, error) {
	var crds []map[string]any
	for _, o := range m.defaults {
		if o.kind() == "CustomResourceDefinition" {
			version := at(o, "spec", "versions", 0)
			crds = append(crds, map[string]any{
				"kind": at(o, "spec", "names", "kind"), "version": at(version, "name"), "name": o.name(), "displayName": at(o, "spec", "names", "kind"),
				"description": at(version, "schema", "openAPIV3Schema", "description"),
			})
		}
	}
	annotations := map[string]string{
		"artifacthub.io/category": "networking", "artifacthub.io/license": "Apache-2.0", "artifacthub.io/operator": "true",
		"artifacthub.io/prerelease":   fmt.Sprint(strings.Contains(a.version, "-")),
		"artifacthub.io/images":       yamlOf([]any{map[string]any{"name": "manager", "image": a.image}}),
		"artifacthub.io/crds":         yamlOf(crds),
		"artifacthub.io/crdsExamples": yamlOf([]any{m.sample}),
		"artifacthub.io/links": yamlOf([]any{
			map[string]any{"name": "Installation", "url": home + "/blob/main/docs/guides/install.md"},
			map[string]any{"name": "Changes", "url": home + "/blob/main/CHANGELOG.md"},
		}),
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "v2", "name": name, "type": "application", "version": a.version, "appVersion": "v" + a.version, "kubeVersion": ">=1.33.0-0", "home": home,
		"description": "Looks after the virtual IPs of Services: ranges, IPAddresses, drift, and which Services get addresses of which range",
		"sources":     []string{home}, "keywords": []string{"ClusterIP", "Service", "ServiceCIDR", "IPAddress", "networking", "operator"},
		"annotations": annotations,
	})
}

func jsonOf(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("a value that came from YAML: %v", err))
	}
	return text.String()
}
