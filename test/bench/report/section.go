package report

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Section is one measured part of the document.
type Section struct {
	// Name is in the markers: <!-- bench:NAME --> and <!-- /bench:NAME -->.
	Name string
	// Intro says how the numbers came about: command, versions, machine.
	Intro []string
	// Tables are the numbers; Notes follow them.
	Tables []Table
	Notes  []string
}

// Print writes the section as markdown.
func (s Section) Print(w io.Writer) error {
	if err := printLines(w, s.Intro); err != nil {
		return err
	}
	for _, t := range s.Tables {
		if err := t.Print(w); err != nil {
			return err
		}
	}
	return printLines(w, s.Notes)
}

// printLines writes one paragraph for each line.
func printLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// WriteTo puts the section between its markers in a file that has them. The rest of the file stays as it is.
func (s Section) WriteTo(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	replaced, err := s.replaceIn(string(content))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.WriteFile(path, []byte(replaced), 0o644)
}

func (s Section) replaceIn(document string) (string, error) {
	open, end := "<!-- bench:"+s.Name+" -->\n", "<!-- /bench:"+s.Name+" -->\n"
	before, rest, opened := strings.Cut(document, open)
	_, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		return "", fmt.Errorf("it has no markers %q and %q on lines of their own", strings.TrimSpace(open), strings.TrimSpace(end))
	}
	var body strings.Builder
	if err := s.Print(&body); err != nil {
		return "", err
	}
	return before + open + "\n" + strings.TrimRight(body.String(), "\n") + "\n\n" + end + after, nil
}
