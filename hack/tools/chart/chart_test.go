package main

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var value map[string]any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestMerge(t *testing.T) {
	const base = "{args: [a, b], name: x}"
	for _, c := range []struct{ name, base, a, b, want, complaint string }{
		{"nothing differs", base, base, base, "args:\n- a\n- b\nname: x\n", ""},
		{"both add to a list", base, "{args: [a, b, c], name: x}", "{args: [a, b, d], name: x}",
			"args:\n- a\n- b\n{{- if A }}\n- c\n{{- end }}\n{{- if B }}\n- d\n{{- end }}\nname: x\n", ""},
		{"a field is added", base, "{args: [a, b], name: x, more: {deep: 1}}", base, "args:\n- a\n- b\n{{- if A }}\nmore:\n  deep: 1\n{{- end }}\nname: x\n", ""},
		{"both add the same field", "{}", "{more: 1}", "{more: 1}", "{{- if or A B }}\nmore: 1\n{{- end }}\n", ""},
		{"one takes a field away", base, "{name: x}", base, "{{- if not A }}\nargs:\n- a\n- b\n{{- end }}\nname: x\n", ""},
		{"both take it away", base, "{name: x}", "{name: x}", "{{- if not (or A B) }}\nargs:\n- a\n- b\n{{- end }}\nname: x\n", ""},
		{"one adds to what the other takes away", "{deep: {x: 1}}", "{deep: {x: 1, z: 2}}", "{}", "{{- if not B }}\ndeep:\n  x: 1\n{{- if A }}\n  z: 2\n{{- end }}\n{{- end }}\n", ""},
		{"a scalar changes", "{k: 1}", "{k: 2}", "{k: 1}", "{{- if not A }}\nk: 1\n{{- end }}\n{{- if A }}\nk: 2\n{{- end }}\n", ""},
		{"a mapping in a list changes", "{l: [{a: 1}]}", "{l: [{a: 1, b: 2}]}", "{l: [{a: 1, A: 0}]}",
			"l:\n-\n{{- if B }}\n  A: 0\n{{- end }}\n  a: 1\n{{- if A }}\n  b: 2\n{{- end }}\n", ""},
		{"both change one scalar", "{k: 1}", "{k: 2}", "{k: 3}", "", `k: "A" and "B" both change it`},
		{"both add one field, each its own", "{}", "{k: 2}", "{k: 3}", "", `k: "A" and "B" both change it`},
		{"an item of a list changes", "{args: [a]}", "{args: [b]}", "{args: [a]}", "", "args: a component changes item 0 of a list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			merged, err := mergeMappings([]version{{"", parse(t, c.base)}, {"A", parse(t, c.a)}, {"B", parse(t, c.b)}})
			if c.complaint != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.complaint) {
					t.Fatalf("got the error %v, want %s", err, c.complaint)
				}
				return
			}
			p := printer{replace: strings.NewReplacer()}
			if got := string(p.print(merged, "")); err != nil || got != c.want {
				t.Errorf("got %v\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

// What users of kustomize wrote must not become an action, nor YAML of another type.
func TestPrint(t *testing.T) {
	p := printer{replace: strings.NewReplacer(namespace, "{{ .Release.Namespace }}")}
	got := string(p.print(plain(parse(t, `
alert: "{{ $labels.range }} is full"
at: clusterip-operator-system
text: |
  one: {{ two }}

  three in clusterip-operator-system
who: system:serviceaccount:clusterip-operator-system:x
`)).(mapping), "X"))
	want := `{{- if X }}
alert: '{{ "{{" }} $labels.range }} is full'
at: {{ .Release.Namespace | quote }}
text: |
  one: {{ "{{" }} two }}

  three in {{ .Release.Namespace }}
who: system:serviceaccount:{{ .Release.Namespace }}:x
{{- end }}
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	made := func() (map[string][]byte, []byte, []byte) {
		m, err := load("../../../config")
		if err != nil {
			t.Fatal(err)
		}
		files, err := m.chart(about{"1.2.3", "registry.example/team/manager:v1.2.3@sha256:" + strings.Repeat("0", 64)})
		if err != nil {
			t.Fatal(err)
		}
		tgz, err := compressed(files)
		if err != nil {
			t.Fatal(err)
		}
		layout, err := layoutOf(tgz, files["Chart.yaml"])
		if err != nil {
			t.Fatal(err)
		}
		return files, tgz, layout
	}
	files, tgz, layout := made()
	for range 3 {
		again, tgzAgain, layoutAgain := made()
		if !maps.EqualFunc(files, again, bytes.Equal) || !bytes.Equal(tgz, tgzAgain) || !bytes.Equal(layout, layoutAgain) {
			t.Fatal("they differ")
		}
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "want CONFIG LICENSE OUT"},
		{[]string{"-version", "1.2.3", "config", "LICENSE", "out"}, `-version "1.2.3": want one as v1.2.3`},
		{[]string{"none", "none", t.TempDir()}, "none"},
		{[]string{t.TempDir(), "main.go", t.TempDir()}, "rendering /config/default"},
	} {
		if err := run(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got the error %v, want %s", c.args, err, c.want)
		}
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1", "v1.2.3-4-g0abc123-dirty": "1.2.3-4-g0abc123-dirty", "v0.0.0-dev": "0.0.0-dev",
		"": "", "v": "", "1.2.3": "", "v1.2": "", "v1.2.3-.": "", "v1.2.3-": "", "v1.2.3-a..b": "", "v1.2.3-01": "", "v01.2.3": "", "v1.2.3+build": "", "v1.2.3\n": "", "vv1.2.3": "",
	} {
		if got, err := versionOf(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}
