// Provenance writes how a release was made, as an in-toto Statement with SLSA's provenance (v1):
//
//	provenance [-materials FILE]... [-parameter KEY=VALUE]... \
//		REPOSITORY COMMIT VERSION SUBJECTS OUT PROGRAM...
//
// SUBJECTS, the artefacts, and each FILE of materials are what sha256sum prints. The version of Go
// and its settings are read from the PROGRAMs, where the linker wrote them. There is no time and no
// name of a machine: the same release gives the same bytes. It is not signed by itself; the
// signature of a release covers the digest of OUT.
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
	parameters                  map[string]any // of the build, beside the version
	materials                   []*intoto.ResourceDescriptor
	subjects                    []*intoto.ResourceDescriptor
	settings                    map[string]any // of Go
}

func run(args []string) error {
	a := about{parameters: map[string]any{}}
	set := flag.NewFlagSet("provenance", flag.ContinueOnError)
	set.Func("materials", "what sha256sum prints of files that went in; may be repeated", func(file string) error {
		all, err := descriptors(file)
		a.materials = append(a.materials, all...)
		return err
	})
	set.Func("parameter", "KEY=VALUE of the build; may be repeated", func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("want KEY=VALUE")
		}
		a.parameters[key] = value
		return nil
	})
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() < 6 {
		return errors.New("want REPOSITORY COMMIT VERSION SUBJECTS OUT PROGRAM")
	}
	a.repository, a.commit, a.version = set.Arg(0), set.Arg(1), set.Arg(2)
	var err error
	if a.subjects, err = descriptors(set.Arg(3)); err != nil {
		return err
	}
	if a.settings, err = settings(set.Args()[5:]); err != nil {
		return err
	}
	text, err := a.statement()
	if err != nil {
		return err
	}
	return os.WriteFile(set.Arg(4), text, 0o644)
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

// settings are the version of Go and its settings, each with the values that any program has.
func settings(programs []string) (map[string]any, error) {
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
	parameters := map[string]any{"version": a.version, "repository": a.repository, "commit": a.commit}
	external, err := structpb.NewStruct(parameters)
	internal, err2 := structpb.NewStruct(map[string]any{"go": a.settings, "parameters": a.parameters})
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	source := &intoto.ResourceDescriptor{
		Uri: "git+" + a.repository + "@" + a.commit, Digest: map[string]string{"gitCommit": a.commit},
	}
	p := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			// What the parameters mean is said where a release is made.
			BuildType:          a.repository + "/blob/" + a.commit + "/hack/release.sh",
			ExternalParameters: external, InternalParameters: internal,
			ResolvedDependencies: append([]*intoto.ResourceDescriptor{source}, a.materials...),
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: a.repository + "/blob/" + a.commit + "/CONTRIBUTING.md#how-to-release"}},
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
