package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Head is how every file about one cluster begins. The types that are kept in such files embed it.
type Head struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Cluster    types.UID `json:"cluster"` // the UID of namespace kube-system
}

// Expect reports that a file is something else than what is wanted: "is ..., not ...".
func (h Head) Expect(apiVersion, kind string) error {
	if h.APIVersion != apiVersion || h.Kind != kind {
		return fmt.Errorf("is %q %q, not %s %s", h.APIVersion, h.Kind, apiVersion, kind)
	}
	return nil
}

// Of returns an error if the file, called what, is about another cluster: nothing was written.
func (h Head) Of(this types.UID, what string) error {
	if h.Cluster != this {
		return fmt.Errorf("the %s is of cluster %s, this is %s (UIDs of namespace kube-system); nothing was written", what, h.Cluster, this)
	}
	return nil
}

// Load reads a file of Save, YAML or JSON. Unknown fields are errors: they may mean something.
func Load(file string, into any) error {
	text, err := os.ReadFile(file)
	switch {
	case err != nil:
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")): // of which yaml reads the first object alone
		var strict []error
		strict, err = kjson.UnmarshalStrict(text, into)
		err = errors.Join(append(strict, err)...)
	case bytes.Contains(text, []byte("\n---")):
		err = errors.New("there is more than one document in it")
	default:
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return nil
}

// FormatOf is the format of a file by its name, json or yaml, and empty for other names.
func FormatOf(file string) string {
	return map[string]string{".json": "json", ".yaml": "yaml", ".yml": "yaml"}[filepath.Ext(file)]
}

// Save writes a value into a file, in the format of its name, in place of what was there.
func Save(file string, value any) error {
	return Replace(file, func(w io.Writer) error { return Encode(w, value, FormatOf(file)) })
}

// Encode writes a value as json, or as yaml.
func Encode(w io.Writer, value any, format string) error {
	var text []byte
	var err error
	if format == "json" {
		text, err = json.MarshalIndent(value, "", "  ")
		text = append(escaped(text), '\n')
	} else {
		text, err = yaml.Marshal(value)
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// escaped escapes characters that steer a terminal and that json leaves as they are. In JSON they
// can stand only in strings.
func escaped(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r == '\n' || unicode.IsGraphic(r):
			out = utf8.AppendRune(out, r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
	}
	return out
}

// Replace puts a complete file into place in one step: half a plan might be read as a shorter one.
func Replace(file string, content func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".clusterip-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails when it has been renamed
	w := bufio.NewWriter(f)
	if err := errors.Join(content(w), w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
