package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// value is what an admin may set: a line of values.yaml, of its schema and of the page about them.
type value struct {
	name, comment string
	// fallback is what config/ has, as YAML that may have comments.
	fallback string
	schema   map[string]any
}

// kinds of JSON schema that several values have.
func typed(kind string, more ...any) map[string]any {
	schema := map[string]any{"type": kind}
	for i := 0; i < len(more); i += 2 {
		schema[more[i].(string)] = more[i+1]
	}
	return schema
}

// fields are those of an object that has no others, and has to have those that are required.
func fields(properties map[string]any, required ...string) map[string]any {
	return typed("object", "properties", properties, "additionalProperties", false, "required", append([]string{}, required...))
}

// quantity is one of Kubernetes, "128Mi" or a number.
func quantity() map[string]any {
	return map[string]any{"type": []string{"string", "number"}, "pattern": `^[0-9]+(\.[0-9]*)?([eE][0-9]+|[numkKMGTPE]i?)?$`}
}

// values are those of the chart, with what config/ has as their defaults. The image has none: a
// default would be among the values that `helm upgrade --reuse-values` keeps, with the old program.
func (m manifests) values(image string) (all []value, err error) {
	var deployment, configuration object
	for _, o := range m.defaults {
		switch o.kind() {
		case "Deployment":
			deployment = o
		case "ConfigMap":
			configuration = o
		}
	}
	pod := at(deployment, "spec", "template", "spec")
	container := at(pod, "containers", 0)
	var limit any
	for _, variable := range at(container, "env").([]any) {
		if at(variable, "name") == memoryVariable {
			limit = at(variable, "value")
		}
	}
	text, _ := at(configuration, "data", configFile).(string)
	quantities := typed("object", "additionalProperties", quantity())
	texts := typed("object", "additionalProperties", typed("string"))
	all = []value{
		{"image", "In the place of " + image + ", for a registry of your own.", `""`, typed("string", "pattern", `^([^\s@]+(@sha256:[0-9a-f]{64})?)?$`)},
		{"imagePullSecrets", "Secrets in the namespace of the release with which nodes pull the image: [{name: registry}].", "[]",
			typed("array", "items", fields(map[string]any{"name": typed("string", "minLength", 1)}, "name"))},
		{"replicas", "All serve the webhooks, one leads. With one, a node takes steering away with it.", yamlOf(at(deployment, "spec", "replicas")), typed("integer", "minimum", 1)},
		{"resources", "No limit of the CPU: throttling would only stretch the time until a lost address is restored.", yamlOf(at(container, "resources")), fields(map[string]any{"requests": quantities, "limits": quantities})},
		{"goMemoryLimit", "Nine tenths of resources.limits.memory: the collector works harder before the kernel kills. Raise both.", yamlOf(limit),
			typed("string", "pattern", `^([0-9]+(B|KiB|MiB|GiB|TiB)|off)$`)},
		{"nodeSelector", "Of the manager's pods, and of the Job that cleans up at the end.", yamlOf(at(pod, "nodeSelector")), texts},
		{"tolerations", "Of the same pods.", yamlOf(at(pod, "tolerations")), typed("array", "items", fields(map[string]any{
			"key": typed("string"), "operator": typed("string", "enum", []string{"Exists", "Equal", "Lt", "Gt"}), "value": typed("string"),
			"effect": typed("string", "enum", []string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}), "tolerationSeconds": typed("integer"),
		}))},
		{"labels", "On all objects and pods, beside those that they have.", "{}", typed("object",
			"additionalProperties", typed("string", "maxLength", 63, "pattern", "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"))},
		{"config", "The configuration file. Fields are added to these, and null takes one away; lists are replaced. A change rolls the pods.", text,
			typed("object", "required", []string{"apiVersion", "kind"})},
	}
	for _, c := range components {
		all = append(all, value{"components." + c.value, c.comment, "false", typed("boolean")})
	}
	return all, nil
}

// ownLabels are those that objects have. The admin's must be others: selectors go by these.
func (m manifests) ownLabels() []string {
	keys := map[string]bool{}
	for _, objects := range append([][]object{m.defaults, m.uninstall}, slices.Collect(maps.Values(m.with))...) {
		for _, o := range objects {
			labels, _ := at(o, "metadata", "labels").(map[string]any)
			for key := range labels {
				keys[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

func yamlOf(value any) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("a value that came from YAML: %v", err))
	}
	return string(text)
}

// valuesFile is values.yaml.
func valuesFile(values []value) []byte {
	var text strings.Builder
	text.WriteString("# Checked by values.schema.json. What is missing here is for kustomize, or a post-renderer.\n")
	group := ""
	for _, v := range values {
		parent, key, nested := strings.Cut(v.name, ".")
		indent := ""
		if !nested {
			key = parent
		} else {
			indent = "  "
			if group != parent {
				text.WriteString(parent + ":\n")
			}
		}
		group = parent
		if v.comment != "" {
			text.WriteString(indent + "# " + v.comment + "\n")
		}
		text.WriteString(indent + key + ":" + nestedYAML(v.fallback, indent+"  ") + "\n")
	}
	return []byte(text.String())
}

// nestedYAML is YAML behind a key: a single line beside it, more lines below.
func nestedYAML(text, indent string) string {
	text = strings.TrimSuffix(text, "\n")
	if !strings.Contains(text, "\n") && !strings.Contains(text, ": ") && !strings.HasPrefix(text, "- ") {
		return " " + text
	}
	return "\n" + indent + strings.ReplaceAll(text, "\n", "\n"+indent)
}

// schemaFile is values.schema.json. Nothing is known but these values, and what Helm adds for
// charts that this one is a part of. All are required, for null takes a default away.
func schemaFile(values []value) map[string]any {
	properties, groups := map[string]any{}, map[string]map[string]any{}
	for _, v := range values {
		schema := maps.Clone(v.schema)
		if v.comment != "" {
			schema["description"] = v.comment
		}
		parent, key, nested := strings.Cut(v.name, ".")
		if !nested {
			properties[parent] = schema
			continue
		}
		if groups[parent] == nil {
			groups[parent] = map[string]any{}
		}
		groups[parent][key] = schema
		properties[parent] = fields(groups[parent], slices.Sorted(maps.Keys(groups[parent]))...)
	}
	schema := fields(properties, slices.Sorted(maps.Keys(properties))...)
	properties["global"] = typed("object")
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	return schema
}

// page is docs/reference/values.md.
func page(values []value) string {
	var text strings.Builder
	text.WriteString("# Values of the Helm chart\n\nWritten by `hack/generate.sh`. What these values are for is in [install.md](../guides/install.md#with-helm); the fields of `config` are in\n" +
		"[api.md](api.md#managerconfiguration). The chart refuses values of other names and types.\n\n" + table(values))
	return text.String()
}

func table(values []value) string {
	var text strings.Builder
	text.WriteString("| value | default | |\n|---|---|---|\n")
	for _, v := range values {
		fmt.Fprintf(&text, "| `%s` | %s | %s |\n", v.name, shown(v.fallback), v.comment)
	}
	return text.String()
}

// shown is a default in one cell of a table, without comments.
func shown(fallback string) string {
	var value any
	if err := yaml.Unmarshal([]byte(fallback), &value); err != nil {
		panic(fmt.Sprintf("a value that came from YAML: %v", err))
	}
	flow, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("a value that came from YAML: %v", err))
	}
	if text, ok := value.(string); ok && text != "" {
		return "`" + text + "`"
	}
	return "`" + string(flow) + "`"
}
