// Images writes an image as an OCI archive, without a container engine:
//
//	images [-user UID:GID] [-label KEY=VALUE]... NAME PROGRAM FILE ARCH=FOLDER[,FOLDER...]...
//
// PROGRAM is the entrypoint; words after it, behind a space, are arguments that a pod can override.
// Each folder is a layer, the first one the lowest: put what changes rarely there. The same files
// give the same bytes: they are in the order of their names, belong to root and have no times.
//
// archive.go writes, layer.go makes layers.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	o := options{labels: map[string]string{}}
	set := flag.NewFlagSet("images", flag.ContinueOnError)
	set.StringVar(&o.user, "user", "", "UID:GID that the program runs as; empty for root")
	set.Func("label", "KEY=VALUE of the image; may be repeated", func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("want KEY=VALUE")
		}
		o.labels[key] = value
		return nil
	})
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() < 4 {
		return errors.New("want NAME PROGRAM FILE ARCH=FOLDER[,FOLDER...]")
	}
	o.name, o.program = set.Arg(0), strings.Fields(set.Arg(1))
	if len(o.program) == 0 {
		return errors.New("want a PROGRAM")
	}
	for _, text := range set.Args()[3:] {
		arch, folders, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%s: want ARCH=FOLDER[,FOLDER...]", text)
		}
		o.roots = append(o.roots, root{arch, strings.Split(folders, ",")})
	}
	return write(set.Arg(2), o)
}
