package cli

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
)

// choices are the formats of every command, beside its own.
const choices = "json, yaml, jsonpath=TEMPLATE or custom-columns=HEAD:PATH,..."

// AddOutput adds the flag -o of every command; also are further formats.
func AddOutput(cmd *cobra.Command, output *string, also ...string) {
	addOutput(cmd, output, "; "+forPeople, also)
}

// AddFileOutput is AddOutput of a command that writes files too, whose names end as said.
func AddFileOutput(cmd *cobra.Command, output *string, ends string, also ...string) {
	addOutput(cmd, output, ", or a file that ends in "+ends+"; "+forPeople, also)
}

// AddDocumentOutput adds the flag -o of a command whose answer are objects, which it prints as yaml
// without the flag.
func AddDocumentOutput(cmd *cobra.Command, output *string) {
	addOutput(cmd, output, ", or a file that ends in .json or .yaml; yaml without it", nil)
}

const forPeople = "text for people without it"

func addOutput(cmd *cobra.Command, output *string, more string, also []string) {
	usage := "output format: " + strings.Join(append(slices.Clone(also), choices), ", ") + more
	cmd.Flags().StringVarP(output, "output", "o", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(slices.Clone(also), "json", "yaml", "jsonpath=", "custom-columns="), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}) // fails for a flag that there is not
}

// AddPlanOutput adds the flag -o for commands that make plans.
func AddPlanOutput(cmd *cobra.Command, output *string) {
	AddFileOutput(cmd, output, ".json or .yaml")
}

// ValidPlanOutput returns an error if a plan cannot be written so: for people, for programs, or
// into a file.
func ValidPlanOutput(output string) error {
	if PlanFile(output) {
		return ValidFile("--output", output)
	}
	if err := ValidOutput(output); err != nil {
		return fmt.Errorf("%w, or a file name that ends in .yaml or .json", err)
	}
	return nil
}

// PlanFile reports whether -o names a file for a plan.
func PlanFile(output string) bool {
	return batch.FormatOf(output) != "" && !IsTemplate(output)
}

// ValidOutput returns an error if a format is neither one of every command nor one of also.
func ValidOutput(format string, also ...string) error {
	if AsTable(format) || slices.Contains(append(also, "json", "yaml"), format) {
		return nil
	}
	if IsTemplate(format) {
		_, err := printerOf(format)
		return err
	}
	return fmt.Errorf("--output %q is none of %s", format, strings.Join(append(slices.Clone(also), choices), ", "))
}

// AsTable reports whether a format is for people.
func AsTable(format string) bool { return format == "" }

// templates are the formats that a user writes, behind a =.
var templates = []string{"jsonpath", "custom-columns"}

// IsTemplate reports whether a format is one of those, or begins as one.
func IsTemplate(format string) bool { return slices.Contains(templates, kindOf(format)) }

func kindOf(format string) string {
	kind, _, _ := strings.Cut(format, "=")
	return kind
}

// printer writes what was decoded from JSON.
type printer interface {
	Execute(w io.Writer, value any) error
}

// printerOf reads a template.
func printerOf(format string) (p printer, err error) {
	kind, template, _ := strings.Cut(format, "=")
	if template == "" {
		return nil, fmt.Errorf("--output %s needs a template: --output '%s=...'", kind, kind)
	}
	switch kind {
	case "custom-columns":
		p, err = parseColumns(template)
	default:
		p, err = parsePath(template)
	}
	if err != nil {
		return nil, fmt.Errorf("--output %s: %w", kind, err)
	}
	return p, nil
}

// Encode writes a value for programs, in a format that ValidOutput takes. What a template writes
// steers no terminal.
func Encode(w io.Writer, value any, format string) error {
	if format == "json" || format == "yaml" {
		return batch.Encode(w, value, format)
	}
	p, err := printerOf(format)
	if err != nil {
		return err
	}
	text, err := stdjson.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding what is printed: %w", err)
	}
	var decoded any
	if err := json.Unmarshal(text, &decoded); err != nil {
		return fmt.Errorf("decoding what is printed: %w", err)
	}
	var out bytes.Buffer
	if err := p.Execute(&out, decoded); err != nil {
		return fmt.Errorf("--output %s: %w", kindOf(format), err)
	}
	_, err = io.WriteString(w, plain.Lines(out.String()))
	return err
}
