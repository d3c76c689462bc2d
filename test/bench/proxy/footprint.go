package proxy

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Footprint is what a proxy has in the kernel.
type Footprint struct {
	Rules, Chains int
	// Entries are those of ipsets, or of the sets and maps of nftables.
	Entries int
	// Bytes is the length of the text in which the system's own tool shows it.
	Bytes int
}

// weigh reads what iptables-save prints.
func weigh(save string) (f Footprint) {
	f.Bytes = len(save)
	for line := range strings.Lines(save) {
		switch {
		case strings.HasPrefix(line, "-A "):
			f.Rules++
		case strings.HasPrefix(line, ":"):
			f.Chains++
		}
	}
	return f
}

// weighSets adds what `ipset save` prints.
func (f *Footprint) weighSets(save string) {
	f.Bytes += len(save)
	for line := range strings.Lines(save) {
		if strings.HasPrefix(line, "add ") {
			f.Entries++
		}
	}
}

// weighTables reads what `nft list ruleset` prints. In a chain every line is a rule, except its
// hook, its policy and its comments.
func weighTables(list string) (f Footprint) {
	f.Bytes = len(list)
	inChain, inElements := false, false
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		word, _, _ := strings.Cut(line, " ")
		switch {
		case word == "chain":
			inChain = true
			f.Chains++
		case line == "}":
			inChain = false
		case inChain && word != "type" && word != "policy" && word != "comment":
			f.Rules++
		case inElements, word == "elements":
			f.Entries += elements(line)
			inElements = !strings.HasSuffix(line, "}")
		}
	}
	return f
}

// elements counts what stands in one line of a set or map: they are separated by commas.
func elements(line string) int {
	_, after, found := strings.Cut(line, "= {")
	if !found {
		after = line
	}
	n := 0
	for part := range strings.SplitSeq(strings.Trim(after, "{} "), ",") {
		if strings.TrimSpace(part) != "" {
			n++
		}
	}
	return n
}

// tick is the unit of times in /proc.
const tick = 10 * time.Millisecond

// Indexes of fields in the stat of a process in /proc, counted behind its name.
const (
	fieldUser     = 11 // followed by its time in the kernel, and both again for the children that it has waited for
	fieldChildren = 14
	fieldStart    = 19 // since the start of the machine
)

// fields are those of the stat of a process behind its name.
type fields []time.Duration

// statFields reads the stat of a process. It leaves out the fields up to the second, the name in
// parentheses, which may hold anything.
func statFields(stat []byte) (f fields, err error) {
	all := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(all) <= fieldStart {
		return nil, fmt.Errorf("%q is too short for the stat of a process", stat)
	}
	for i, field := range all[:fieldStart+1] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil && i > 0 { // the first is a letter
			return nil, fmt.Errorf("reading the stat of a process: %w", err)
		}
		f = append(f, time.Duration(n)*tick)
	}
	return f, nil
}

// used is the processor time of a process, with the programs that it started and that have ended.
func (f fields) used() (sum time.Duration) {
	for _, field := range f[fieldUser : fieldChildren+1] {
		sum += field
	}
	return sum
}
