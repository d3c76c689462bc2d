package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// options are what an image is made of.
type options struct {
	name, user string
	program    []string // with its default arguments
	labels     map[string]string
	roots      []root
}

// root is the content of an image for one architecture.
type root struct {
	arch    string
	folders []string
}

// write writes the archive: a tar of an image layout, whose index has a manifest per architecture.
func write(file string, o options) (err error) {
	reference, err := name.NewTag(o.name)
	if err != nil {
		return fmt.Errorf("the name of the image: %w", err)
	}
	index, err := index(o)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("beginning the layout: %w", err)
	}
	// containerd and docker read the whole name, with docker.io; tools of the specification, the tag.
	whole := strings.Replace(reference.Name(), name.DefaultRegistry, "docker.io", 1)
	names := map[string]string{"io.containerd.image.name": whole, "org.opencontainers.image.ref.name": reference.TagStr()}
	if err := written.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	return archive(file, dir)
}

func index(o options) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, r := range o.roots {
		image, err := image(o, r)
		if err != nil {
			return nil, fmt.Errorf("the image for %s: %w", r.arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: r.arch}},
		})
	}
	return index, nil
}

func image(o options, r root) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, folder := range r.folders {
		layer, err := layerOf(folder)
		if err == nil {
			image, err = mutate.Append(image, mutate.Addendum{
				Layer: layer, MediaType: types.OCILayer, History: v1.History{CreatedBy: "hack/images.sh", Created: v1.Time{Time: time.Unix(0, 0).UTC()}},
			})
		}
		if err != nil {
			return nil, fmt.Errorf("adding %s: %w", path.Base(folder), err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", r.arch, v1.Time{Time: time.Unix(0, 0).UTC()}
	config.Config = v1.Config{
		Entrypoint: o.program[:1], Cmd: o.program[1:], User: o.user, Labels: o.labels,
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}
	return mutate.ConfigFile(image, config)
}
