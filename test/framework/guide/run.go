package guide

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// Shell is where commands run.
type Shell struct {
	// Name of the guide, for errors: bash itself says it with the line.
	Name string
	// Dir is the working directory, Env the whole environment.
	Dir string
	Env []string
}

// strict ends a script at the first command that fails, and says which. It takes the place of the
// lines above the commands, so that bash counts as the guide does.
const strict = `set -Eeuo pipefail; trap 'echo "$0:$LINENO: failed: $BASH_COMMAND" >&2' ERR;`

// Run runs a block's commands in one bash. The error has the guide's name, the line and the output.
func (s Shell) Run(ctx context.Context, b Block) error {
	script := strict + strings.Repeat("\n", b.Line-1) + b.Commands
	cmd := exec.CommandContext(ctx, "bash", "-c", script, s.Name)
	cmd.Dir, cmd.Env = s.Dir, s.Env
	printed, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return fmt.Errorf("%s:%d: %w", s.Name, b.Line, err)
	}
	if status := cmd.ProcessState.ExitCode(); status != b.Exit {
		return fmt.Errorf("%s:%d: exit status %d, want %d:\n%s", s.Name, b.Line, status, b.Exit, printed)
	}
	if line := missing(b.Output, string(printed)); line != "" {
		return fmt.Errorf("%s:%d: this line is not in the output, or not there:\n%s\nIt printed:\n%s", s.Name, b.Line, line, printed)
	}
	return nil
}

// missing returns the first line, in order, that a text lacks. Spaces count as one: columns vary.
func missing(want []string, text string) string {
	lines := strings.Split(text, "\n")
	for _, line := range want {
		if line = strings.TrimSpace(line); line == "" || line == "..." {
			continue
		}
		pattern := pattern(line)
		found := -1
		for i, printed := range lines {
			if pattern.MatchString(strings.Join(strings.Fields(printed), " ")) {
				found = i
				break
			}
		}
		if found < 0 {
			return line
		}
		lines = lines[found+1:]
	}
	return ""
}

// pattern is a line of an output as a regular expression, in which "..." stands for anything.
func pattern(line string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(strings.Join(strings.Fields(line), " "))
	return regexp.MustCompile("^" + strings.ReplaceAll(quoted, `\.\.\.`, ".*") + "$")
}
