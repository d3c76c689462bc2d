package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// printer writes YAML with actions of text/template.
type printer struct {
	text strings.Builder
	// replace puts actions into scalars, after what looks like an action was quoted.
	replace *strings.Replacer
}

// print returns the text of an object, with when around it.
func (p *printer) print(object mapping, when string) []byte {
	p.text.Reset()
	p.under(when, func() { p.mapping(object, "") })
	return []byte(p.text.String())
}

func (p *printer) linef(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

// under puts an if around what do prints.
func (p *printer) under(when string, do func()) {
	if when == "" {
		do()
		return
	}
	p.linef("{{- if %s }}", when)
	do()
	p.linef("{{- end }}")
}

func (p *printer) mapping(m mapping, indent string) {
	for _, f := range m {
		p.under(f.when, func() { p.field(f, indent) })
	}
}

func (p *printer) field(f field, indent string) {
	f.key = p.scalar(f.key, indent)
	switch value := f.value.(type) {
	case mapping:
		if len(value) == 0 {
			p.linef("%s%s: {}", indent, f.key)
			return
		}
		p.linef("%s%s:", indent, f.key)
		p.mapping(value, indent+"  ")
	case list:
		if len(value) == 0 {
			p.linef("%s%s: []", indent, f.key)
			return
		}
		p.linef("%s%s:", indent, f.key)
		for _, i := range value {
			p.under(i.when, func() { p.item(i.value, indent) })
		}
	case block:
		if f.key == `""` {
			p.linef("{{- with %s }}", string(value))
			p.linef("{{- toYaml . | nindent %d }}", len(indent))
			p.linef("{{- end }}")
			return
		}
		p.linef("%s%s:", indent, f.key)
		p.linef("%s  {{- toYaml %s | nindent %d }}", indent, string(value), len(indent)+2)
	case literal:
		p.linef("%s%s: |", indent, f.key)
		p.linef("%s  {{- %s | nindent %d }}", indent, string(value), len(indent)+2)
	default:
		p.linef("%s%s: %s", indent, f.key, p.scalar(value, indent))
	}
}

// item prints an item of a list. A mapping begins beside the hyphen, or below it with a condition.
func (p *printer) item(value any, indent string) {
	m, ok := value.(mapping)
	if _, nested := value.(list); nested {
		panic("a list in a list, which no manifest has")
	}
	switch {
	case !ok:
		p.linef("%s- %s", indent, p.scalar(value, indent))
	case m[0].when != "" || m[0].key == "":
		p.linef("%s-", indent)
		p.mapping(m, indent+"  ")
	default:
		inner := printer{replace: p.replace}
		inner.mapping(m, indent+"  ")
		p.text.WriteString(indent + "- " + strings.TrimPrefix(inner.text.String(), indent+"  "))
	}
}

// scalar is a value as YAML has it, with the further lines of a long one indented.
func (p *printer) scalar(value any, indent string) string {
	if action, ok := value.(inline); ok {
		return "{{ " + string(action) + " }}"
	}
	if value == namespace { // which may be a number
		return "{{ .Release.Namespace | quote }}"
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("a scalar that came from YAML: %v", err))
	}
	quoted := strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "{{", `{{ "{{" }}`)
	lines := strings.Split(p.replace.Replace(quoted), "\n")
	for i := range lines[1:] {
		if lines[i+1] != "" {
			lines[i+1] = indent + lines[i+1]
		}
	}
	return strings.Join(lines, "\n")
}
