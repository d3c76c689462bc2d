package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// KindError is the error of Load for a file that is something else than what is wanted.
type KindError struct {
	File string
	// Is begins the file, as far as it can be read; Want is the beginning that is wanted.
	Is, Want Head
}

// Error implements error.
func (e KindError) Error() string {
	switch {
	case e.Is.Kind == "":
		return fmt.Sprintf("%s is no %s: it names no kind", e.File, e.Want.Kind)
	case e.Is.Kind != e.Want.Kind:
		return fmt.Sprintf("%s is of kind %.60s, not %s", e.File, e.Is.Kind, e.Want.Kind)
	}
	return fmt.Sprintf("%s is of version %.60q, not %q", e.File, e.Is.APIVersion, e.Want.APIVersion)
}

// Of returns an error if the file, called what, is about another cluster: nothing was written.
func (h Head) Of(this types.UID, what string) error {
	if h.Cluster != this {
		return fmt.Errorf("the %s is of cluster %s, this is %s (UIDs of namespace kube-system); nothing was written", what, h.Cluster, this)
	}
	return nil
}

// Load reads a file of Save that begins as is wanted, YAML or JSON. Another kind is a KindError,
// whatever its fields are. Unknown fields are errors: they may mean something.
func Load(file string, want Head, into any) error {
	text, err := read(file, mostRead)
	switch {
	case err != nil || isJSON(text):
	case bytes.Contains(text, []byte("\n---")):
		err = errors.New("there is more than one document in it") // of which the first alone would be read
	default:
		text, err = yaml.YAMLToJSONStrict(text)
	}
	var is Head
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, &is)
	}
	if err == nil && (is.APIVersion != want.APIVersion || is.Kind != want.Kind) {
		return KindError{File: file, Is: is, Want: want}
	}
	if err == nil {
		var strict []error
		strict, err = kjson.UnmarshalStrict(text, into)
		err = errors.Join(append(strict, err)...)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return nil
}

func isJSON(text []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) }

// mostRead is how many bytes a file has at most: a plan for 65,000 Services has a tenth of it.
const mostRead = 256 << 20

// read reads a file of so many bytes at most, which may be a pipe.
func read(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, bare(err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, bare(err)
	case int64(len(text)) > most:
		return nil, fmt.Errorf("it has more than %d bytes", most)
	}
	return text, nil
}

// bare is an error without the name of the file, which the caller tells.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
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
