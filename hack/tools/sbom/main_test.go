package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// rootfs holds a package of Debian, whose description goes over several lines.
func rootfs(t *testing.T, arch string) string {
	t.Helper()
	folder := t.TempDir()
	status := filepath.Join(folder, "var/lib/dpkg/status.d")
	text := "Package: libstdc++6\nVersion: 1:12.2.0-14+deb12u1\nArchitecture: " + arch + "\nDescription: GNU\n The library.\n .\n More of it.\n"
	if err := errors.Join(os.MkdirAll(status, 0o755), os.WriteFile(filepath.Join(status, "libstdc++6"), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// written is the document of this test's own program.
func written(t *testing.T) []byte {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sbom.json")
	if err := run([]string{"-packages", rootfs(t, "arm64"), "-packages", rootfs(t, "amd64"), "v1.2.3", file, program, program}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestADocumentListsModulesAndPackages(t *testing.T) {
	text := written(t)
	if !bytes.Equal(text, written(t)) {
		t.Error("two documents of the same files differ")
	}
	var document cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&document); err != nil {
		t.Fatal(err)
	}
	if c := document.Metadata.Component; c.Version != "v1.2.3" || document.Metadata.Timestamp != "" || document.SerialNumber != "" {
		t.Errorf("the document is about %+v, of %q, number %q", c, document.Metadata.Timestamp, document.SerialNumber)
	}
	var got []string
	for _, c := range *document.Components {
		purl, _, _ := strings.Cut(c.PackageURL, "@v")
		got = append(got, purl)
	}
	want := []string{
		"pkg:deb/debian/libstdc%2B%2B6@1:12.2.0-14%2Bdeb12u1?arch=amd64&distro=debian-12",
		"pkg:deb/debian/libstdc%2B%2B6@1:12.2.0-14%2Bdeb12u1?arch=arm64&distro=debian-12",
		"pkg:golang/github.com/CycloneDX/cyclonedx-go", "pkg:golang/github.com/package-url/packageurl-go",
		"pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("it lists\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMistakesAreNamed(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sbom.json")
	for want, args := range map[string][]string{
		"want VERSION FILE PROGRAM":        {"v1.2.3", file},
		"reading the modules of main.go":   {"v1.2.3", file, "main.go"},
		"there are none in var/lib/dpkg/s": {"-packages", t.TempDir(), "v1.2.3", file, program},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%v: a document was left", args)
		}
	}
}
