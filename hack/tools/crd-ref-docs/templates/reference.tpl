{{- /* docs/reference/api.md: each kind with its spec and status, then the types that they are made of. crd-ref-docs starts with gvList. */ -}}
{{- define "gvList" -}}
# API reference

Written by `hack/generate.sh` from the types in [api](../../api): what users write into a cluster, and the configuration files of the manager and of the node agent.
`kubectl explain servicecidrpolicy --recursive` says the same on a cluster, and [config/samples](../../config/samples) has examples.
{{ range . }}
{{- $group := . }}
{{- range .SortedKinds }}
{{ template "section" ($group.TypeForKind .) }}
{{ template "section" (index $group.Types (printf "%sSpec" .)) }}
{{- with index $group.Types (printf "%sStatus" .) }}
{{ template "section" . }}
{{- end }}
{{- end }}
{{- range .SortedTypes }}
{{- if hasSuffix "Configuration" .Name }}
{{ template "section" . }}
{{- end }}
{{- end }}
{{- range .SortedTypes }}
{{- if and (markdownShouldRenderType .) (not .GVK) (not (hasSuffix "Spec" .Name)) (not (hasSuffix "PolicyStatus" .Name)) }}
{{ template "section" . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "section" -}}
## {{ .Name }}

{{ if .GVK }}`apiVersion: {{ .GVK.Group }}/{{ .GVK.Version }}`, `kind: {{ .GVK.Kind }}`

{{ end -}}
{{ .Doc }}
{{ with .Members }}
| field | what it says | default | bounds |
| --- | --- | --- | --- |
{{ range . -}}
| `{{ .Name }}` {{ markdownRenderType .Type }} | {{ template "about" . }} | {{ with .Default }}`{{ . }}`{{ end }} | {{ template "bounds" . }} |
{{ end -}}
{{ end -}}
{{ with .EnumValues }}
| value | what it says |
| --- | --- |
{{ range . -}}
| `{{ .Name }}` | {{ .Doc | trim | replace "\n" " " }} |
{{ end -}}
{{ end -}}
{{ template "rules" . }}
{{- end }}

{{- define "about" -}}
{{ if eq .Name "metadata" }}The name, labels and annotations.{{ else }}{{ .Doc | replace "\n" " " | replace "|" "\\|" }}{{ end }}
{{- end }}

{{- define "bounds" -}}
{{- $parts := list -}}
{{- range .Validation -}}
{{- if hasPrefix "Required" . -}}{{ $parts = append $parts "required" }}
{{- else if hasPrefix "MaxItems: " . -}}{{ $parts = append $parts (printf "at most %s" (trimPrefix "MaxItems: " .)) }}
{{- else if hasPrefix "MaxLength: " . -}}{{ $parts = append $parts (printf "%s characters" (trimPrefix "MaxLength: " .)) }}
{{- else if hasPrefix "items:MaxLength: " . -}}{{ $parts = append $parts (printf "%s characters each" (trimPrefix "items:MaxLength: " .)) }}
{{- end -}}
{{- end -}}
{{ join ", " $parts }}
{{- end }}

{{- define "rules" -}}
{{- $said := list -}}
{{- range index .Markers "kubebuilder:validation:XValidation" -}}
{{- $said = append $said (printf "%s" .Message) -}}
{{- end -}}
{{- range $field := .Members -}}
{{- if not $field.Type.Fields -}}
{{- range index $field.Markers "kubebuilder:validation:XValidation" -}}
{{- $said = append $said (printf "`%s`: %s" $field.Name .Message) -}}
{{- end -}}
{{- range index $field.Markers "kubebuilder:validation:items:XValidation" -}}
{{- $said = append $said (printf "`%s`: %s" $field.Name .Message) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with uniq $said }}
What the API server answers when something is wrong:
{{ range . }}
- {{ . }}
{{- end }}
{{ end -}}
{{- end }}
