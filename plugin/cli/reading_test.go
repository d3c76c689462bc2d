package cli

import (
	"bytes"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A list that is short shows nothing; of a longer one there is a line, which goes away.
func TestReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := &reading{out: &out, now: time.Now, start: time.Now(), kinds: map[string]readingOf{}}
		r.tell("Services", 500, 900)
		r.end()
		if out.Len() > 0 {
			t.Errorf("after no time it shows %q", out.String())
		}
		r.ended = false
		time.Sleep(2 * time.Second)
		r.tell("Services", 900, 900)
		r.tell("IPAddresses", 500, 200000) // in the same moment
		time.Sleep(time.Second)
		r.tell("IPAddresses", 1000, 200000)
		r.end()
		r.tell("IPAddresses", 1500, 200000)
		const want = "\rReading Services 900/900\x1b[K\rReading IPAddresses 1000/200000, Services 900/900\x1b[K\r\x1b[K"
		if got := out.String(); got != want {
			t.Errorf("it shows %q, want %q", got, want)
		}
	})
}

func TestReadingWithoutATerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, r := range []*reading{newReading(file), newReading(&bytes.Buffer{})} {
		if r.tell("Services", 1, 2); r != nil {
			t.Error("it tells what is no terminal")
		}
		r.end()
	}
}
