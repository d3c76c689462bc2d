package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// folder has a program, a file that only its owner reads, and a link, all changed at some time.
func folder(t *testing.T, changed time.Time) string {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "usr/sbin"), 0o755),
		os.WriteFile(filepath.Join(dir, "usr/sbin/iptables"), []byte("program"), 0o755),
		os.WriteFile(filepath.Join(dir, "secret"), []byte("file"), 0o600),
		os.Symlink("usr/sbin/iptables", filepath.Join(dir, "iptables")),
		os.Chtimes(filepath.Join(dir, "secret"), changed, changed),
	)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// made is the archive of an image for two architectures.
func made(t *testing.T, changed time.Time) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	err := run([]string{"-user", "65532:65532", "-label", "title=ours", "example/agent:v1", "/agent run", file,
		"amd64=" + folder(t, changed) + "," + folder(t, changed), "arm64=" + folder(t, changed)})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	first, err := os.ReadFile(made(t, time.Unix(1, 0)))
	second, again := os.ReadFile(made(t, time.Unix(2, 0)))
	if err := errors.Join(err, again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("the archives differ")
	}
}

func TestAnArchiveHasAnImageForEachArchitecture(t *testing.T) {
	dir := unpack(t, made(t, time.Now()))
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("%v; %d images", err, len(top.Manifests))
	}
	if got := top.Manifests[0].Annotations["io.containerd.image.name"]; got != "docker.io/example/agent:v1" {
		t.Errorf("the image is named %s", got)
	}
	images, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := images.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("%v; %d architectures", err, len(manifest.Manifests))
	}
	for i, layers := range []int{2, 1} {
		platform := manifest.Manifests[i].Platform
		image, err := images.Image(manifest.Manifests[i].Digest)
		if err != nil || platform.Architecture != []string{"amd64", "arm64"}[i] || platform.OS != "linux" {
			t.Fatalf("image %d: %v, for %v", i, err, platform)
		}
		expectContent(t, image, layers)
	}
}

func expectContent(t *testing.T, image v1.Image, layers int) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if strings.Join(c.Entrypoint, " ") != "/agent" || strings.Join(c.Cmd, " ") != "run" || c.User != "65532:65532" || c.Labels["title"] != "ours" {
		t.Errorf("the configuration is %+v", c)
	}
	all, err := image.Layers()
	if err != nil || len(all) != layers {
		t.Fatalf("%v; %d layers, want %d", err, len(all), layers)
	}
	content, err := all[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"iptables -> usr/sbin/iptables 777", "secret 600 file", "usr/ 755", "usr/sbin/ 755", "usr/sbin/iptables 755 program"}
	if got := list(t, content); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the layer holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// list shows what is in a tar, which must be root's.
func list(t *testing.T, content io.Reader) (lines []string) {
	t.Helper()
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		text, readErr := io.ReadAll(r)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 0 {
			t.Errorf("%s belongs to %d:%d and is of %v", header.Name, header.Uid, header.Gid, header.ModTime)
		}
		line := header.Name
		if header.Linkname != "" {
			line += " -> " + header.Linkname
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %o %s", line, header.Mode, text)))
	}
}

// unpack unpacks an archive into a folder.
func unpack(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			text, readErr := io.ReadAll(r)
			err = errors.Join(readErr, os.WriteFile(path, text, 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.tar")
	for want, args := range map[string][]string{
		"want NAME PROGRAM FILE":         {"example/agent:v1"},
		"want ARCH=FOLDER":               {"example/agent:v1", "/agent", file, "amd64"},
		"the name of the image":          {"Example Agent", "/agent", file, "amd64=" + t.TempDir()},
		"the image for amd64: adding no": {"example/agent:v1", "/agent", file, "amd64=/no"},
		"want KEY=VALUE":                 {"-label", "title", "example/agent:v1", "/agent", file, "amd64=/no"},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%v: an archive was left", args)
		}
	}
}
