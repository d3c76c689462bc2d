// Sbom writes what a program is made of as a CycloneDX document in JSON:
//
//	sbom [-packages FOLDER]... VERSION FILE PROGRAM...
//
// Each PROGRAM is the same one, built for another platform: modules that the Go linker wrote into
// any of them are listed. FOLDER is a root filesystem that the program runs in, with Debian
// packages that hack/packages.sh unpacked. The same files give the same bytes: there is no time and
// no serial number, and components are in the order of their package URLs.
package main

import (
	"bufio"
	"bytes"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/textproto"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var folders []string
	set := flag.NewFlagSet("sbom", flag.ContinueOnError)
	set.Func("packages", "root filesystem with packages of Debian; may be repeated", func(folder string) error {
		folders = append(folders, folder)
		return nil
	})
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() < 3 {
		return errors.New("want VERSION FILE PROGRAM")
	}
	all := components{}
	var program cyclonedx.Component
	for _, file := range set.Args()[2:] {
		var err error
		if program, err = all.addModules(file, set.Arg(0)); err != nil {
			return fmt.Errorf("reading the modules of %s: %w", file, err)
		}
	}
	for _, folder := range folders {
		if err := all.addPackages(folder); err != nil {
			return fmt.Errorf("reading the packages in %s: %w", folder, err)
		}
	}
	return all.write(set.Arg(1), program)
}

// components are what a program is made of, by their package URLs.
type components map[string]cyclonedx.Component

func (c components) add(name, version string, purl *packageurl.PackageURL) {
	text := purl.ToString()
	c[text] = cyclonedx.Component{BOMRef: text, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: text}
}

// addModules adds the modules and standard library of a program, and returns the program itself.
func (c components) addModules(file, version string) (cyclonedx.Component, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return cyclonedx.Component{}, err
	}
	c.add("std", info.GoVersion, golang("std", strings.TrimPrefix(info.GoVersion, "go")))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c.add(m.Path, m.Version, golang(m.Path, m.Version))
	}
	purl := golang(info.Main.Path, version)
	purl.Subpath = strings.TrimPrefix(info.Path, info.Main.Path+"/")
	return cyclonedx.Component{
		BOMRef: purl.ToString(), Type: cyclonedx.ComponentTypeApplication, Name: path.Base(info.Path), Version: version, PackageURL: purl.ToString(),
	}, nil
}

func golang(module, version string) *packageurl.PackageURL {
	namespace, name := path.Split(module)
	return packageurl.NewPackageURL(packageurl.TypeGolang, strings.TrimSuffix(namespace, "/"), name, version, nil, "")
}

// addPackages adds the packages that lie in a root filesystem.
func (c components) addPackages(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "var/lib/dpkg/status.d/*"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("there are none in var/lib/dpkg/status.d")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		// The fields of a package are written as those of a mail, which end with an empty line.
		fields, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(text, '\n')))).ReadMIMEHeader()
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		name, version := fields.Get("Package"), fields.Get("Version")
		about := packageurl.QualifiersFromMap(map[string]string{"arch": fields.Get("Architecture"), "distro": "debian-12"})
		c.add(name, version, packageurl.NewPackageURL(packageurl.TypeDebian, "debian", name, version, about, ""))
	}
	return nil
}

func (c components) write(file string, program cyclonedx.Component) error {
	document := cyclonedx.NewBOM()
	document.Metadata = &cyclonedx.Metadata{Component: &program}
	var list []cyclonedx.Component
	for _, purl := range slices.Sorted(maps.Keys(c)) {
		list = append(list, c[purl])
	}
	document.Components = &list
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(document); err != nil {
		return fmt.Errorf("encoding the document: %w", err)
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}
