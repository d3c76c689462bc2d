package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
)

// folder is what the files of an archive lie in.
const folder = "clusterip-bundle"

// archive writes files one after the other. One file at a time is in memory.
type archive struct {
	zip   *gzip.Writer
	tar   *tar.Writer
	names *names
	at    time.Time
}

// newArchive returns an archive whose files have pseudonyms, and were made at a time.
func newArchive(w io.Writer, n *names, at time.Time) *archive {
	zip := gzip.NewWriter(w)
	return &archive{zip, tar.NewWriter(zip), n, at}
}

// text adds a file of lines.
func (a *archive) text(name, words string) error { return a.write(name, []byte(a.names.text(words))) }

// json adds a file of one value.
func (a *archive) json(name string, value any) error { return a.lines(name, []any{value}, "  ") }

// lines adds a file with a line of JSON for each value, or more of them with an indent.
func (a *archive) lines(name string, values []any, indent string) error {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	for _, v := range values {
		decoded, err := decodedOf(v)
		if err == nil {
			err = e.Encode(a.names.value(decoded))
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return a.write(name, out.Bytes())
}

// decodedOf is a value as a decoder of JSON would have it.
func decodedOf(v any) (out any, err error) {
	if decoded, ok := v.(map[string]any); ok {
		return decoded, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // sizes of IPv6 ranges are larger than a float64 tells
	return out, d.Decode(&out)
}

func (a *archive) write(name string, text []byte) error {
	err := a.tar.WriteHeader(&tar.Header{Name: path.Join(folder, name), Mode: 0o600, Size: int64(len(text)), ModTime: a.at})
	if err == nil {
		_, err = a.tar.Write(text)
	}
	if err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

// close ends the archive, which is none before.
func (a *archive) close() error { return errors.Join(a.tar.Close(), a.zip.Close()) }

// decoded adds a file of JSON that a command wrote.
func (a *archive) decoded(name string, text []byte) error {
	return a.json(name, json.RawMessage(text))
}
