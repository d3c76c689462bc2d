package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	repository = "https://example.org/operator"
	commit     = "0123456789abcdef0123456789abcdef01234567"
)

var digest = strings.Repeat("ab", 32)

// list is a file as sha256sum writes it.
func list(t *testing.T, names ...string) string {
	t.Helper()
	file, text := filepath.Join(t.TempDir(), "sums"), ""
	for _, name := range names {
		text += digest + "  " + name + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// document is the one about a release with this test's own program.
func document(t *testing.T) []byte {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "provenance.json")
	args := []string{"-materials", list(t, "go.sum"), "-materials", list(t, "libc6_2.36-9_amd64.deb"), "-parameter", "registry=example.org", "-setting", "ldflags=-s -w",
		repository, commit, "v1.2.3", list(t, "install.yaml", "manager.tar"), out, program, program}
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAStatementSaysHowTheArtefactsWereMade(t *testing.T) {
	text := document(t)
	if !bytes.Equal(text, document(t)) {
		t.Error("two statements about one release differ")
	}
	s, p := &intoto.Statement{}, &provenance.Provenance{}
	if err := protojson.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	predicate, err := protojson.Marshal(s.GetPredicate())
	if err := errors.Join(err, protojson.Unmarshal(predicate, p), s.Validate(), p.Validate()); err != nil {
		t.Fatal(err)
	}
	if s.GetType() != "https://in-toto.io/Statement/v1" || s.GetPredicateType() != "https://slsa.dev/provenance/v1" {
		t.Errorf("it is a %s about a %s", s.GetType(), s.GetPredicateType())
	}
	if len(s.GetSubject()) != 2 || s.GetSubject()[1].GetName() != "manager.tar" || s.GetSubject()[1].GetDigest()["sha256"] != digest {
		t.Errorf("it is about %v", s.GetSubject())
	}
	b := p.GetBuildDefinition()
	if of := b.GetResolvedDependencies(); len(of) != 3 || of[0].GetDigest()["gitCommit"] != commit || of[2].GetName() != "libc6_2.36-9_amd64.deb" {
		t.Errorf("it was made of %v", of)
	}
	if v := b.GetExternalParameters().AsMap(); v["version"] != "v1.2.3" || v["commit"] != commit || v["registry"] != "example.org" {
		t.Errorf("what was asked for is %v", v)
	}
	internal := b.GetInternalParameters().AsMap()
	settings, _ := internal["go"].(map[string]any)
	if settings["go"] != runtime.Version() || settings["GOARCH"] != runtime.GOARCH || internal["ldflags"] != "-s -w" {
		t.Errorf("it was built with %v", internal)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, subjects, empty, bad := filepath.Join(t.TempDir(), "provenance.json"), list(t, "a"), list(t), list(t, "a")
	if err := os.WriteFile(bad, []byte("no digest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"want REPOSITORY COMMIT VERSION":     {repository, commit},
		"want KEY=VALUE":                     {"-parameter", "ldflags", repository, commit, "v1", subjects, out, program},
		"names no file":                      {repository, commit, "v1", empty, out, program},
		`"no digest" is no line of sha256su`: {repository, commit, "v1", bad, out, program},
		"reading how main.go was built":      {repository, commit, "v1", subjects, out, "main.go"},
		"digest is not valid hex":            {repository, "main", "v1", subjects, out, program},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%v: a statement was left", args)
		}
	}
}
