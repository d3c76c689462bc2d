package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// TestDocumentedCommandsExist parses each documented command line of ours, without running it.
func TestDocumentedCommandsExist(t *testing.T) {
	docs, err := filepath.Glob("../docs/*.md")
	below, errBelow := filepath.Glob("../docs/*/*.md")
	if err := errors.Join(err, errBelow); err != nil {
		t.Fatal(err)
	}
	// What follows a redirection, and flags that a variable of the shell holds, is not ours to parse.
	command, seen := regexp.MustCompile("(?:^(?:   )?|[`(] ?)kubectl clusterip ([^`#>$\n]*)"), 0
	for _, file := range slices.Concat(docs, below, []string{"../README.md"}) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, match := range command.FindAllStringSubmatch(line, -1) {
				words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(strings.TrimSuffix(strings.TrimSpace(match[1]), "\\")))
				seen++
				if err := parses(words); err != nil {
					t.Errorf("%s: kubectl clusterip %s: %v", filepath.Base(file), strings.Join(words, " "), err)
				}
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d commands were found", seen)
	}
}

// parses reports why a command line is none of ours.
func parses(words []string) error {
	p := &plugintest.Printed{}
	cmd, args, err := New(p.Streams()).Find(words)
	if err != nil {
		return err
	}
	err = cmd.ParseFlags(args)
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		err = nil
		if cmd.Args != nil {
			err = cmd.Args(cmd, cmd.Flags().Args())
		}
	}
	return err
}
