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
	"github.com/clusterip-operator/clusterip-operator/test/bench/plugin"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy"
	"github.com/clusterip-operator/clusterip-operator/test/bench/renumber"
	"github.com/clusterip-operator/clusterip-operator/test/bench/scale"
	"github.com/clusterip-operator/clusterip-operator/test/bench/steering"
	"github.com/clusterip-operator/clusterip-operator/test/bench/upgrade"
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
	memory      operation.MemoryOptions
	upgrade     upgrade.Options
	proxy       proxy.Options
	proxies     []string // of proxy and of extremes, if they are given
	quick       bool
	steering    steering.Options
	plugin      plugin.Options
	renumber    renumber.Options
	scale       scale.Options
	ipvs        proxy.Options
	prepared    string
}

func parse(args []string) (command, error) {
	c := command{args: args}
	var only string
	c.allocations.Levels = []int{0, 5_000, 10_000, 20_000}
	c.manager.Sizes = []int{10_000, 50_000}
	c.manager.Labelled, c.manager.Repaired = []int{10_000}, []int{10_000}

	c.upgrade, c.proxy, c.steering, c.plugin, c.renumber = upgrade.Full(), proxy.Full(), steering.Full(), plugin.Full(), renumber.Full()
	c.ipvs, c.scale, c.memory = proxy.FullIPVS(), scale.Full(), operation.FullMemory()

	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&only, "only", "allocations,manager", "parts to run: "+strings.Join(names(), ", "))
	flags.BoolVar(&c.write, "write", false, "write the results into the document")
	flags.StringVar(&c.document, "document", "docs/reference/benchmarks.md", "the document")
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

	flags.Var((*numbers)(&c.memory.Sizes), "crowds", "memory: numbers of Services in one family")
	flags.Var((*numbers)(&c.memory.Dual), "crowds-dual", "memory: numbers of Services in two families")

	flags.Var((*numbers)(&c.upgrade.Sizes), "clusters", "upgrade: numbers of Services in one family")
	flags.Var((*numbers)(&c.upgrade.Dual), "dual", "upgrade: numbers of Services in two families")
	flags.IntVar(&c.upgrade.Repeats, "repeats", c.upgrade.Repeats, "upgrade: starts of each kind")
	flags.IntVar(&c.upgrade.Once, "once", c.upgrade.Once, "upgrade: with more addresses, the start without migration is measured once")
	flags.DurationVar(&c.upgrade.Bound, "bound", c.upgrade.Bound, "upgrade: how long an API server may take to become ready, restarts included")
	flags.IntVar(&c.upgrade.Raced, "raced", c.upgrade.Raced, "upgrade: the one of --clusters where writing is compared with a bare loop")
	flags.IntVar(&c.upgrade.Rounds, "races", c.upgrade.Rounds, "upgrade: rounds of this comparison")
	flags.IntVar(&c.upgrade.Workers, "writers", c.upgrade.Workers, "upgrade: writes at the same time in this comparison")
	c.proxyFlags(flags)
	c.steeringFlags(flags)
	flags.Func("world", "scale: Services, ranges and events, as 100000,1000,12000", func(text string) error {
		var services, ranges, events int
		if n, err := fmt.Sscanf(text, "%d,%d,%d", &services, &ranges, &events); n < 3 || services < 100 || ranges < 10 || events < 10 {
			return fmt.Errorf("%q is not 100,10,10 at least: %w", text, err)
		}
		c.scale = scale.Sized(services, ranges, events)
		return nil
	})
	flags.Var((*numbers)(&c.ipvs.Sizes), "servers", "ipvs: numbers of Services with three endpoints each")
	flags.Var((*numbers)(&c.ipvs.SizesV6), "servers-v6", "ipvs: the same with IPv6")
	flags.DurationVar(&c.ipvs.Timeout, "deadline", c.ipvs.Timeout, "ipvs: how long a start may take")
	flags.StringVar(&c.prepared, "prepared", "", "ipvs: measure here, with the control planes of this folder, as it does in the machine that it starts")
	flags.BoolFunc("quick", "memory, upgrade, proxy and what begins with it, steering, plugin, million, renumber, scale, ipvs: small clusters and few repetitions, to see whether the benchmark works", func(text string) error {
		if quick, err := strconv.ParseBool(text); err != nil || !quick {
			return err
		}
		c.upgrade, c.proxy, c.steering, c.plugin, c.renumber = upgrade.Quick(), proxy.Quick(), steering.Quick(), plugin.Quick(), renumber.Quick()
		c.ipvs, c.scale, c.memory, c.quick = proxy.QuickIPVS(), scale.Quick(), operation.QuickMemory(), true
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if len(c.proxies) > 0 {
		c.proxy.Proxies = c.proxies
	}
	var err error
	c.parts, err = pick(only)
	return c, err
}

// proxyFlags are those of the part proxy.
func (c *command) proxyFlags(flags *flag.FlagSet) {
	flags.Var((*numbers)(&c.proxy.Sizes), "services", "proxy: numbers of Services with three endpoints each")
	flags.Var((*numbers)(&c.proxy.SizesV6), "services-v6", "proxy: the same with IPv6")
	flags.Var((*numbers)(&c.proxy.Mixed), "mixed", "proxy: numbers of Services in clusters with two ServiceCIDRs, load balancers, external IPs and node ports")
	flags.Var((*numbers)(&c.proxy.MixedV6), "mixed-v6", "proxy: the same with IPv6")
	flags.IntVar(&c.proxy.Endpoints, "endpoints", c.proxy.Endpoints, "proxy: endpoints of a single Service; 0 leaves this out")
	flags.Func("proxies", "proxy and what begins with it: those to measure: "+strings.Join(proxy.Keys(), ","), func(text string) error {
		c.proxies = strings.Split(text, ",")
		return nil
	})
	flags.DurationVar(&c.proxy.Timeout, "timeout", c.proxy.Timeout, "proxy: how long a start may take")
}

// steeringFlags are those of the part steering.
func (c *command) steeringFlags(flags *flag.FlagSet) {
	flags.Var((*numbers)(&c.steering.Sizes), "there", "steering: numbers of Services that exist")
	flags.Var((*numbers)(&c.steering.Policies), "policies", "steering: numbers of policies")
	flags.Var((*numbers)(&c.steering.Clients), "clients", "steering: numbers of clients")
	flags.IntVar(&c.steering.Rounds, "turns", c.steering.Rounds, "steering: turns with webhooks, and as many without")
	flags.IntVar(&c.steering.Crowd, "crowd", c.steering.Crowd, "steering: policies with a range each, for the memory of a manager")
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
