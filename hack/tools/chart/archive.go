package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"testing/fstest"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"sigs.k8s.io/yaml"
)

// What Helm wants of an artifact in a registry.
const (
	configType = "application/vnd.cncf.helm.config.v1+json"
	layerType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// pack makes a tar of files, in the order of their names and without times.
func pack(files fstest.MapFS) ([]byte, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	err := errors.Join(w.AddFS(files), w.Close())
	return content.Bytes(), err
}

// compressed is the chart as `helm package` makes it, but for the times.
func compressed(files map[string][]byte) ([]byte, error) {
	folder := fstest.MapFS{}
	for file, content := range files {
		folder[path.Join(name, file)] = &fstest.MapFile{Data: content, Mode: 0o644}
	}
	archive, err := pack(folder)
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	w := gzip.NewWriter(&content)
	_, err = w.Write(archive)
	err = errors.Join(err, w.Close())
	return content.Bytes(), err
}

// layoutOf is a tar of an OCI layout with what `helm push` pushes, but for the time of the push.
func layoutOf(tgz, chartYAML []byte) (archive []byte, err error) {
	folder, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := writeLayout(folder, tgz, chartYAML); err != nil {
		return nil, err
	}
	files, disk := fstest.MapFS{}, os.DirFS(folder)
	err = fs.WalkDir(disk, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(disk, path)
		files[path] = &fstest.MapFile{Data: content, Mode: 0o644}
		return err
	})
	if err != nil {
		return nil, err
	}
	return pack(files)
}

func writeLayout(folder string, tgz, chartYAML []byte) error {
	ctx := context.Background()
	var metadata struct{ Name, Version, Description, Home string }
	config, err := yaml.YAMLToJSON(chartYAML)
	if err := errors.Join(err, json.Unmarshal(config, &metadata)); err != nil {
		return err
	}
	store, err := oci.New(folder)
	if err != nil {
		return err
	}
	layer, err := oras.PushBytes(ctx, store, layerType, tgz)
	if err != nil {
		return err
	}
	about, err := oras.PushBytes(ctx, store, configType, config)
	if err != nil {
		return err
	}
	manifest, err := oras.PackManifest(ctx, store, oras.PackManifestVersion1_1, "", oras.PackManifestOptions{
		ConfigDescriptor: &about, Layers: []ocispec.Descriptor{layer}, ManifestAnnotations: map[string]string{
			ocispec.AnnotationTitle: metadata.Name, ocispec.AnnotationVersion: metadata.Version, ocispec.AnnotationDescription: metadata.Description,
			ocispec.AnnotationURL: metadata.Home, ocispec.AnnotationSource: metadata.Home, ocispec.AnnotationCreated: "1970-01-01T00:00:00Z",
		},
	})
	if err != nil {
		return err
	}
	return store.Tag(ctx, manifest, metadata.Version)
}
