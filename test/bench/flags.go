package main

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/allocation"
	"github.com/clusterip-operator/clusterip-operator/test/bench/operation"
)

// command is what the flags say.
type command struct {
	args  []string // as given, for the record
	parts []part

	write    bool
	document string
	kept     string

	allocations allocation.Options
	manager     operation.Options
}

func parse(args []string) (command, error) {
	c := command{args: args}
	var only string
	c.allocations.Levels = []int{0, 5_000, 10_000, 20_000}
	c.manager.Sizes = []int{10_000, 50_000}
	c.manager.Labelled, c.manager.Repaired = []int{10_000}, []int{10_000}

	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&only, "only", "allocations,manager", "parts to run: "+strings.Join(names(), ", "))
	flags.BoolVar(&c.write, "write", false, "write the results into the document")
	flags.StringVar(&c.document, "document", "docs/benchmarks.md", "the document")
	flags.StringVar(&c.kept, "kept", "bin/bench", "allocator: folder with the results of hack/bench.sh")

	flags.Var((*numbers)(&c.allocations.Levels), "levels", "allocations: numbers of existing Services")
	flags.IntVar(&c.allocations.Rounds, "rounds", 5, "allocations: turns of each contender at each level")
	flags.IntVar(&c.allocations.Load.Workers, "workers", 8, "allocations: allocations at the same time")
	flags.IntVar(&c.allocations.Load.Count, "count", 500, "allocations: allocations in a turn")
	flags.DurationVar(&c.allocations.Load.Limit, "limit", 8*time.Second, "allocations: end a turn after this time")

	flags.Var((*numbers)(&c.manager.Sizes), "sizes", "manager: numbers of Services")
	flags.Var((*numbers)(&c.manager.Labelled), "labelled", "manager: sizes to measure with band labels too")
	flags.Var((*numbers)(&c.manager.Repaired), "repaired", "manager: sizes at which to wait for the API server's own repair")
	flags.DurationVar(&c.manager.Quiet, "quiet", time.Minute, "manager: how long to watch it do nothing")
	flags.IntVar(&c.manager.Deleted, "deleted", 1000, "manager: IPAddresses to delete")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	var err error
	c.parts, err = pick(only)
	return c, err
}

// pick returns the named parts in the order of the list.
func pick(only string) (picked []part, err error) {
	wanted := strings.Split(only, ",")
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return nil, fmt.Errorf("there is no part %q; say one or more of %s", name, strings.Join(names(), ", "))
		}
	}
	for _, p := range parts {
		if slices.Contains(wanted, p.name) {
			picked = append(picked, p)
		}
	}
	return picked, nil
}

// numbers is a flag like "0,5000,10000"; empty means none. They are kept in ascending order.
type numbers []int

// String implements flag.Value.
func (n *numbers) String() string {
	var texts []string
	for _, i := range *n {
		texts = append(texts, strconv.Itoa(i))
	}
	return strings.Join(texts, ",")
}

// Set implements flag.Value.
func (n *numbers) Set(text string) error {
	*n = nil
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		i, err := strconv.Atoi(field)
		if err != nil || i < 0 {
			return fmt.Errorf("%q is not a number of objects", field)
		}
		*n = append(*n, i)
	}
	slices.Sort(*n)
	return nil
}

// String returns the command as it would be typed, without what does not change the numbers.
func (c command) String() string {
	words := []string{"go run ./test/bench"}
	for _, arg := range c.args {
		if strings.TrimLeft(arg, "-") != "write" {
			words = append(words, arg)
		}
	}
	return strings.Join(words, " ")
}
