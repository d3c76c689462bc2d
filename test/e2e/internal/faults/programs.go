// Package faults makes iptables-restore fail a node agent as on real machines: it reports an error,
// before or after its work, or takes long. It touches nothing outside of the folder it was given.
package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// restores are the programs that write rules.
var restores = []string{"iptables-nft-restore", "ip6tables-nft-restore", "iptables-legacy-restore", "ip6tables-legacy-restore"}

// script stands before one restore. A failure costs one token, which only one of two gets that run
// at once, as a file moves but once. "refuse" fails before anything happened, "forget" after all of
// it; "hold" makes one wait, a gate all that come. What is taboo fails each time.
const script = `#!/bin/sh
dir=%[1]q
in=$(mktemp "$dir/input.XXXXXX") || exit 1
cat >"$in"
echo "%[2]s $*" >>"$dir/started"
spend() {
	for token in "$dir/$1".*; do
		mv "$token" "${2:-$dir/spent}" 2>/dev/null && return 0
	done
	return 1
}
late=
if spend hold "$dir/held.$$"; then
	late="$dir/late.$$"
	while [ -e "$dir/held.$$" ]; do sleep 0.02; done
fi
while [ -e "$dir/gate" ]; do sleep 0.02; done
if spend refuse; then
	echo "%[2]s: line 7 failed: Resource temporarily unavailable (injected)" >&2
	rm -f "$in"
	exit 4
fi
if [ -s "$dir/taboo" ] && grep -qFf "$dir/taboo" "$in"; then
	echo "%[2]s: line 7 failed: No such file or directory (injected)" >&2
	rm -f "$in"
	exit 1
fi
%[3]q "$@" <"$in"
code=$?
[ -z "$late" ] || : >"$late"
rm -f "$in"
if [ $code = 0 ] && spend forget; then
	echo "%[2]s: cannot say whether that worked (injected)" >&2
	exit 1
fi
exit $code
`

// Programs are stand-ins for iptables-restore in all its variants. They work like the real ones
// until a fault is ordered. Its methods may be called while they run.
type Programs struct{ dir string }

// NewPrograms writes them into a new folder below dir.
func NewPrograms(dir string) (*Programs, error) {
	dir, err := os.MkdirTemp(dir, "faults-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for programs: %w", err)
	}
	for _, name := range restores {
		program, err := exec.LookPath(name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, script, dir, name, program), 0o755); err != nil {
			return nil, fmt.Errorf("writing a stand-in for %s: %w", name, err)
		}
	}
	return &Programs{dir: dir}, nil
}

// Path is a PATH that leads to these programs first.
func (p *Programs) Path() string { return p.dir + ":" + os.Getenv("PATH") }

// Refuse lets the next n restores fail before they do anything.
func (p *Programs) Refuse(n int) error { return p.tokens("refuse", n) }

// Taboo fails each restore of rules with this text, as a kernel that lacks a feature; "" ends that.
func (p *Programs) Taboo(text string) error {
	return os.WriteFile(filepath.Join(p.dir, "taboo"), []byte(text), 0o600)
}

// NoMore takes back all failures that were ordered and did not happen yet.
func (p *Programs) NoMore() error { return errors.Join(p.remove("refuse.*"), p.remove("forget.*")) }

// Forget lets the next n restores that work report a failure all the same.
func (p *Programs) Forget(n int) error { return p.tokens("forget", n) }

func (p *Programs) tokens(kind string, n int) error {
	for i := range n {
		if err := os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("%s.%d-%d", kind, time.Now().UnixNano(), i)), nil, 0o600); err != nil {
			return fmt.Errorf("ordering a failure: %w", err)
		}
	}
	return nil
}

// Hold lets the next n restores wait until Release; further restores do not wait.
func (p *Programs) Hold(n int) error { return p.tokens("hold", n) }

// HoldNoMore takes back what Hold ordered and no program has met yet.
func (p *Programs) HoldNoMore() error { return p.remove("hold.*") }

// Held is how many wait for Release.
func (p *Programs) Held() int { return p.count("held.*") }

// Release lets those go that were held.
func (p *Programs) Release() error { return p.remove("held.*") }

// Late is how many have done their work of those that were held.
func (p *Programs) Late() int { return p.count("late.*") }

func (p *Programs) remove(pattern string) error {
	files, err := filepath.Glob(filepath.Join(p.dir, pattern))
	for _, file := range files {
		if gone := os.Remove(file); !errors.Is(gone, fs.ErrNotExist) { // a program may have taken it meanwhile
			err = errors.Join(err, gone)
		}
	}
	return err
}

// Left is how many of the ordered failures have not happened yet.
func (p *Programs) Left() int { return p.count("refuse.*") + p.count("forget.*") }

func (p *Programs) count(pattern string) int {
	files, _ := filepath.Glob(filepath.Join(p.dir, pattern))
	return len(files)
}

// Close holds every restore that starts from now on; Open lets them go. Both may be called twice.
func (p *Programs) Close() error { return os.WriteFile(filepath.Join(p.dir, "gate"), nil, 0o600) }

// Open ends what Close began.
func (p *Programs) Open() error { return p.remove("gate") }

// Started is how many restores have begun.
func (p *Programs) Started() int {
	content, _ := os.ReadFile(filepath.Join(p.dir, "started")) // none yet
	return strings.Count(string(content), "\n")
}
