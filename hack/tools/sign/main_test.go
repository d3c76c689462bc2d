package main

import (
	"bytes"
	"encoding"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// keyPair is a new key: its secret text, and the file of its public part.
func keyPair(t *testing.T) (text, public string) {
	t.Helper()
	of, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	public = filepath.Join(t.TempDir(), "release.pub")
	if err := os.WriteFile(public, marshal(t, of), 0o600); err != nil {
		t.Fatal(err)
	}
	return string(marshal(t, secret)), public
}

func marshal(t *testing.T, key encoding.TextMarshaler) []byte {
	t.Helper()
	text, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func sums(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "SHA256SUMS")
	if err := os.WriteFile(file, []byte("0123  install.yaml\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// getenv is an environment of names and values.
func getenv(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// signed signs a file, and returns the signature.
func signed(t *testing.T, public, file string, env ...string) []byte {
	t.Helper()
	if err := run([]string{public, file, "clusterip-operator v1.2.3"}, getenv(env...)); err != nil {
		t.Fatal(err)
	}
	signature, err := os.ReadFile(file + ".minisig")
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func TestASignatureVouchesForFileAndComment(t *testing.T) {
	text, public := keyPair(t)
	file := sums(t)
	signature := signed(t, public, file, "MINISIGN_KEY", text)
	key, keyErr := minisign.PublicKeyFromFile(public)
	content, err := os.ReadFile(file)
	if err := errors.Join(keyErr, err); err != nil {
		t.Fatal(err)
	}
	if !minisign.Verify(key, content, signature) {
		t.Error("the signature does not verify")
	}
	for what, forged := range map[string][2][]byte{
		"another byte of the file": {bytes.Replace(content, []byte("0"), []byte("1"), 1), signature},
		"another version":          {content, bytes.Replace(signature, []byte("v1.2.3"), []byte("v1.2.4"), 1)},
	} {
		if minisign.Verify(key, forged[0], forged[1]) {
			t.Errorf("the signature verifies with %s", what)
		}
	}
	secret := filepath.Join(t.TempDir(), "release.key")
	if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := signed(t, public, file, "MINISIGN_KEY_FILE", secret); !bytes.Equal(again, signature) {
		t.Error("two signatures of one file differ")
	}
}

func TestAnEncryptedKeyTakesItsPassword(t *testing.T) {
	public := filepath.Join(t.TempDir(), "release.pub")
	if err := os.WriteFile(public, []byte("RWSUvhQ0sQZggavGatlBEmMkoKRE0fKZMHeA6n/fLJsGcOHDyXwbRSNK\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// minisign encrypts with a gigabyte of memory; this key is encrypted with little.
	const text = "RWRTY0IyXDgya0/WnR5kU/c3JUr9NziCqEhWLvLvkCNDU4g40awAgAAAAAAAAAAAAAEAAAAAFx6x2nx+GTDjj+m1U6DGqK6Ztly8det5hosh4AXBw1eQ" +
		"to5Ih+vcoKa+SLfiwFPh69QV4ANGcuS1FbAZ/Mf62UVyRUN87pip7PNK80Nfi2DhtRuI0gwGAHAZxpTps6/o/3dcxzs0BZI="
	for password, want := range map[string]string{
		"correct horse": "", "": "the secret key is encrypted: set MINISIGN_PASSWORD", "battery": "MINISIGN_PASSWORD is not its password",
	} {
		err := run([]string{public}, getenv("MINISIGN_KEY", text, "MINISIGN_PASSWORD", password))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("password %q: %v, want %q", password, err, want)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	text, public := keyPair(t)
	foreign, _ := keyPair(t)
	file, missing := sums(t), filepath.Join(t.TempDir(), "missing")
	for want, c := range map[string]struct{ args, env []string }{
		"want PUBLIC, or PUBLIC FILE":    {nil, nil},
		"reading the public key":         {[]string{missing}, []string{"MINISIGN_KEY", text}},
		"set MINISIGN_KEY_FILE to":       {[]string{public}, nil},
		"are both set: leave one":        {[]string{public}, []string{"MINISIGN_KEY", text, "MINISIGN_KEY_FILE", missing}},
		"reading the secret key: open":   {[]string{public}, []string{"MINISIGN_KEY_FILE", missing}},
		"is no secret key of minisign":   {[]string{public}, []string{"MINISIGN_KEY", "hunter2"}},
		"is not that of " + public:       {[]string{public}, []string{"MINISIGN_KEY", foreign}},
		"COMMENT has more than one line": {[]string{public, file, "v1\nv2"}, []string{"MINISIGN_KEY", text}},
		missing + ": no such file":       {[]string{public, missing, "v1"}, []string{"MINISIGN_KEY", text}},
	} {
		err := run(c.args, getenv(c.env...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c.args, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), text)) {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
	if _, err := os.Stat(file + ".minisig"); err == nil {
		t.Error("a signature was left")
	}
}
