// Provenance writes how a release was made, as an in-toto Statement with SLSA's provenance (v1):
//
//	provenance [-materials FILE]... [-parameter KEY=VALUE]... [-setting KEY=VALUE]... \
//		REPOSITORY COMMIT VERSION SUBJECTS OUT PROGRAM...
//
// A parameter is what was asked for, beside the version; a setting is how that was done. SUBJECTS,
// the artefacts, and each FILE of materials are what sha256sum prints. The version of Go and its
// settings are read from the PROGRAMs, where the linker wrote them. There is no time and no name of
// a machine: the same release gives the same bytes. It is not signed by itself; the signature of a
// release covers the digest of OUT.
package main

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

// about is what a release is made of.
type about struct {
	repository, commit, version string
	parameters, settings        map[string]any
	materials                   []*intoto.ResourceDescriptor
	subjects                    []*intoto.ResourceDescriptor
}

func run(args []string) error {
	a := about{parameters: map[string]any{}, settings: map[string]any{}}
	set := flag.NewFlagSet("provenance", flag.ContinueOnError)
	set.Func("materials", "what sha256sum prints of files that went in; may be repeated", func(file string) error {
		all, err := descriptors(file)
		a.materials = append(a.materials, all...)
		return err
	})
	set.Func("parameter", "KEY=VALUE that was asked for; may be repeated", pairs(a.parameters))
	set.Func("setting", "KEY=VALUE of the build; may be repeated", pairs(a.settings))
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() < 6 {
		return errors.New("want REPOSITORY COMMIT VERSION SUBJECTS OUT PROGRAM")
	}
	a.repository, a.commit, a.version = set.Arg(0), set.Arg(1), set.Arg(2)
	a.parameters["repository"], a.parameters["commit"], a.parameters["version"] = a.repository, a.commit, a.version
	var err error
	if a.subjects, err = descriptors(set.Arg(3)); err != nil {
		return err
	}
	if a.settings["go"], err = goSettings(set.Args()[5:]); err != nil {
		return err
	}
	text, err := a.statement()
	if err != nil {
		return err
	}
	return os.WriteFile(set.Arg(4), text, 0o644)
}

// pairs parses values of a flag that may be repeated.
func pairs(into map[string]any) func(string) error {
	return func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("want KEY=VALUE")
		}
		into[key] = value
		return nil
	}
}

// descriptors are the lines of a file as sha256sum writes them: a digest, two spaces, and a name.
func descriptors(file string) (all []*intoto.ResourceDescriptor, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		digest, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			return nil, fmt.Errorf("%s: %q is no line of sha256sum", file, lines.Text())
		}
		all = append(all, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s names no file", file)
	}
	return all, nil
}

// goSettings are the version of Go and its settings, each with the values that any program has.
func goSettings(programs []string) (map[string]any, error) {
	found := map[string][]string{}
	add := func(key, value string) {
		if !slices.Contains(found[key], value) {
			found[key] = append(found[key], value)
		}
	}
	for _, file := range programs {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading how %s was built: %w", filepath.Base(file), err)
		}
		add("go", info.GoVersion)
		for _, s := range info.Settings {
			add(s.Key, s.Value)
		}
	}
	all := map[string]any{}
	for key, values := range found {
		slices.Sort(values)
		all[key] = strings.Join(values, " ")
	}
	return all, nil
}

// statement is the document.
func (a about) statement() ([]byte, error) {
	external, externalErr := structpb.NewStruct(a.parameters)
	internal, internalErr := structpb.NewStruct(a.settings)
	if err := errors.Join(externalErr, internalErr); err != nil {
		return nil, err
	}
	source := &intoto.ResourceDescriptor{
		Uri: "git+" + a.repository + "@" + a.commit, Digest: map[string]string{"gitCommit": a.commit},
	}
	p := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			// Both names are of no commit, for verifiers compare them with those that they know.
			BuildType:          a.repository + "/blob/main/hack/release.sh",
			ExternalParameters: external, InternalParameters: internal,
			ResolvedDependencies: append([]*intoto.ResourceDescriptor{source}, a.materials...),
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: a.repository + "/blob/main/CONTRIBUTING.md#how-to-release"}},
	}
	predicate, err := asStruct(p)
	if err != nil {
		return nil, err
	}
	s := &intoto.Statement{
		Type: intoto.StatementTypeUri, Subject: a.subjects, PredicateType: "https://slsa.dev/provenance/v1", Predicate: predicate,
	}
	if err := errors.Join(s.Validate(), p.Validate()); err != nil {
		return nil, err
	}
	return written(s)
}

func asStruct(m proto.Message) (*structpb.Struct, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	s := &structpb.Struct{}
	return s, protojson.Unmarshal(text, s)
}

// written is a message as JSON. The package protojson alone puts spaces where it likes.
func written(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, text, "", "  ")
	out.WriteByte('\n')
	return out.Bytes(), err
}
