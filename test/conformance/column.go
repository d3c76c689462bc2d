package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// What becomes of a spec.
const passes, fails, skips, unknown = "passes", "**fails**", "skips itself", "not asked"

// column is what became of the specs with a proxy, by their names, and on which day.
type column struct {
	proxy, day string
	states     map[string]string
}

// reported is the column of a report. Specs that are not for that cluster are not in it.
func reported(proxy string, r types.Report) column {
	c := column{proxy: proxy, day: r.StartTime.UTC().Format(time.DateOnly), states: map[string]string{}}
	for _, s := range sorted(r.SpecReports) {
		switch {
		case unsuitable(s) != "":
		case s.State.Is(types.SpecStatePassed):
			c.states[name(s)] = passes
		case s.Failed():
			c.states[name(s)] = fails
		default:
			c.states[name(s)] = skips
		}
	}
	return c
}

// keptIn are the columns that a document has from former runs, by their proxies.
func keptIn(document string) (map[string]column, error) {
	text, err := os.ReadFile(document)
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- bench:"+section+" -->\n")
	body, _, _ := strings.Cut(rest, "<!-- /bench:"+section+" -->\n")
	first, _, _ := strings.Cut(strings.TrimSpace(body), "\n\n")
	return columnsOf(first), nil
}

// columnsOf reads the table that tables has written.
func columnsOf(table string) map[string]column {
	all := map[string]column{}
	var header []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if header == nil {
			header = cells
			continue
		}
		for i := 1; i < min(len(cells), len(header)); i++ {
			c, known := all[header[i]]
			if !known {
				c = column{proxy: header[i], states: map[string]string{}}
			}
			switch {
			case cells[0] == "on":
				c.day = cells[i]
			case cells[i] == passes, cells[i] == fails, cells[i] == skips:
				c.states[cells[0]] = cells[i]
			}
			all[header[i]] = c
		}
	}
	return all
}

func (c column) ran(spec string) bool { return c.states[spec] == passes || c.states[spec] == fails }

// passed says of how many specs that ran how many passed.
func (c column) passed() string {
	n, ran := 0, 0
	for spec, state := range c.states {
		if state == passes {
			n++
		}
		if c.ran(spec) {
			ran++
		}
	}
	return fmt.Sprintf("%d of %d", n, ran)
}

// specsOf are the specs that at least one proxy ran.
func specsOf(columns []column) (names []string) {
	for _, c := range columns {
		for spec := range c.states {
			if c.ran(spec) {
				names = append(names, spec)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
