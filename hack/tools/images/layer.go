package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// layerOf is a layer of all in a folder. It reads the files at once: some tens of megabytes.
func layerOf(folder string) (v1.Layer, error) {
	var content bytes.Buffer
	if err := pack(&content, folder); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil })
}

// archive packs a folder into a file, which is complete or not there.
func archive(file, folder string) (err error) {
	out, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	if err := errors.Join(pack(out, folder), out.Chmod(0o644), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), file)
}

// pack tars a folder's content in the order of names, of root, without times. Links stay links.
func pack(to io.Writer, folder string) error {
	w := tar.NewWriter(to)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		if err := add(w, folder, path, entry); err != nil {
			return fmt.Errorf("packing %s: %w", path, err)
		}
		return nil
	})
	return errors.Join(err, w.Close())
}

func add(w *tar.Writer, folder, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	found, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	if found.Name, err = filepath.Rel(folder, path); err != nil {
		return err
	}
	if info.IsDir() {
		found.Name += "/"
	}
	header := &tar.Header{
		Typeflag: found.Typeflag, Name: found.Name, Linkname: target, Size: found.Size, Mode: found.Mode, ModTime: time.Unix(0, 0),
	}
	if err := w.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}
