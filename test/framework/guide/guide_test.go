package guide

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const text = "# A guide\n" +
	"\n" +
	"<!-- given\n" +
	"true\n" +
	"-->\n" +
	"## First\n" +
	"```bash\n" +
	"echo one   1.5s\n" +
	"echo two\n" +
	"```\n" +
	"It says:\n" +
	"```output\n" +
	"one 1...\n" +
	"```\n" +
	"<!-- not executed here: it takes a day -->\n" +
	"   ```bash\n" +
	"   sleep 1d\n" +
	"   ```\n" +
	"```yaml\n" +
	"a: b\n" +
	"```\n" +
	"```bash exits 3\n" +
	"exit 3\n" +
	"```\n"

func TestParse(t *testing.T) {
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{Line: 4, Heading: "# A guide", Commands: "true", Given: true},
		{Line: 8, Heading: "## First", Commands: "echo one   1.5s\necho two", Output: []string{"one 1..."}},
		{Line: 17, Heading: "## First", Commands: "   sleep 1d", NotHere: "it takes a day"},
		{Line: 23, Heading: "## First", Commands: "exit 3", Exit: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a\n```\nb\n```\n":                     `2: a block is bash, output, or one of yaml text , not ""`,
		"```sh\nb\n```\n":                      `1: a block is bash, output, or one of yaml text , not "sh"`,
		"```output\nb\n```\n":                  "1: an output without its commands",
		"```bash\nb\n":                         "3: a block that began at line 1 does not end",
		"<!-- not executed here: why -->\na\n": "3: a block is not executed, and there is none",
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		block Block
		want  string // in the error, empty for none
	}{
		"succeeds":                    {block: Block{Line: 1, Commands: "true"}},
		"in the guide's folder":       {block: Block{Line: 1, Commands: "pwd", Output: []string{"/"}}},
		"fails in its second line":    {Block{Line: 40, Commands: "true\nfalse\necho not reached"}, "docs/a.md:41: failed: false\n"},
		"fails in a pipe":             {Block{Line: 40, Commands: "false | cat"}, "docs/a.md:40: exit status 1, want 0"},
		"fails in a function":         {Block{Line: 40, Commands: "f() {\n  false\n}\nf"}, "docs/a.md:41: failed: false\n"},
		"calls what is not there":     {Block{Line: 7, Commands: "true\nnosuch"}, "docs/a.md: line 8: nosuch: command not found"},
		"names a variable that isn't": {Block{Line: 7, Commands: "echo $nosuch"}, "docs/a.md: line 7: nosuch: unbound variable"},
		"fails as it should":          {block: Block{Line: 7, Commands: "exit 2", Exit: 2}},
		"succeeds and should not":     {Block{Line: 7, Commands: "true", Exit: 2}, "docs/a.md:7: exit status 0, want 2"},
		"prints":                      {block: Block{Line: 7, Commands: "printf 'a   b\\nc\\nde\\n'", Output: []string{"a b", "...", "d..."}}},
		"prints in another order":     {Block{Line: 7, Commands: "printf 'a\\nb\\n'", Output: []string{"b", "a"}}, "docs/a.md:7: this line is not in the output, or not there:\na\n"},
		"prints something else":       {Block{Line: 7, Commands: "echo axb", Output: []string{"a.b"}}, "not in the output"},
	} {
		t.Run(name, func(t *testing.T) {
			shell := Shell{Name: "docs/a.md", Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}}
			err := shell.Run(t.Context(), test.block)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
