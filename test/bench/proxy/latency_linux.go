package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// latencies times new connections through all proxies in turn, and without any. Nobody does anything else meanwhile.
func (b *bench) latencies(ctx context.Context, c *Case, stands []*stand) (err error) {
	b.log.Step("%s: timing new connections", c.Shape)
	var bare []*stand
	defer func() { err = errors.Join(err, closeAll(bare)) }()
	for _, variant := range []string{"legacy", "nft", ""} {
		s, err := b.newBare(ctx, variant)
		if s != nil {
			bare = append(bare, s)
		}
		if err != nil {
			return err
		}
	}
	if err := b.takeTurns(ctx, append(bare, stands...)); err != nil {
		return err
	}
	c.Bare = Bare{
		Service: bare[0].Service, Other: bare[0].Other, ServiceNFT: bare[1].Service, OtherNFT: bare[1].Other, None: bare[2].Other,
	}
	return nil
}

// takeTurns begins each round with another one. What a first round warms up is not counted.
func (b *bench) takeTurns(ctx context.Context, all []*stand) error {
	for round := range b.Rounds + 1 {
		for i := range all {
			s := all[(round+i)%len(all)]
			if err := errors.Join(b.turn(s, round > 0), ctx.Err()); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn times connections to Services, unless there is nobody to serve them, and to other addresses.
func (b *bench) turn(s *stand, count bool) error {
	kinds := []struct {
		to   []netip.AddrPort
		into *stats.Sample
	}{{b.people.Some(b.Count), &s.Service}, {b.people.SomeEndpoints(b.Count), &s.Other}}
	if s.proxy == nil && s.who.Variant == "" {
		kinds = kinds[1:]
	}
	for _, kind := range kinds {
		times, err := s.client.Count(b.Count, kind.to...)
		if err != nil {
			return err
		}
		if times.Failed > 0 {
			b.log.Step("%s: %d of %d connections failed, the last to %s", s.who.Name, times.Failed, b.Count, times.Failure)
		}
		if count {
			*kind.into = append(*kind.into, times.Took...)
		}
	}
	return nil
}

// stickyEndpoints are those of the Service with affinity: one in each pod of every stand, with the servers of the network, which say who
// they are.
func stickyEndpoints(f model.Family) []netip.AddrPort {
	var all []netip.AddrPort
	for _, pod := range []string{"10.180.1.11", "10.180.1.12"} {
		all = append(all, netip.AddrPortFrom(netip.MustParseAddr(pod), network.Ports[0]))
	}
	if f == model.IPv6 {
		panic("affinity is measured with IPv4 alone")
	}
	return all
}

// affinity has many clients connect twice, one after the other, and counts those who come to the same endpoint again.
func (b *bench) affinity(_ context.Context, s *stand) error {
	if !b.sticky.IsValid() {
		return nil
	}
	first, err := b.visit(s)
	if err != nil {
		return err
	}
	second, err := b.visit(s)
	if err != nil {
		return err
	}
	s.Clients = b.Clients
	for i := range first {
		if first[i] == second[i] {
			s.Kept++
		}
	}
	return nil
}

// visit returns where each client came to.
func (b *bench) visit(s *stand) (endpoints []netip.AddrPort, err error) {
	for i := range b.Clients {
		from := netip.AddrPortFrom(s.bed.Client.Extra(b.family, i+1), 0)
		result := s.bed.Client.Dial(network.Probe{To: b.sticky, Source: from})
		if result.Err != nil {
			return nil, fmt.Errorf("%s: connecting to the Service with affinity: %w", s.who.Name, result.Err)
		}
		endpoints = append(endpoints, result.Endpoint)
	}
	return endpoints, nil
}

const (
	// changePatience is how long a change may take.
	changePatience = time.Minute
	// fewChanges are enough of those that take long.
	fewChanges = 3
	// rest is the least pause after a change.
	rest = 500 * time.Millisecond
)

// changes times single changes of an EndpointSlice: to a port on which nobody listens and back.
func (b *bench) changes(ctx context.Context, s *stand) error {
	before, err := b.syncs(ctx, s)
	if err != nil {
		return err
	}
	begin := time.Now()
	for i := 0; i < b.Changes && (i < fewChanges || time.Since(begin) < b.ChangesLimit); i++ {
		took, err := b.change(ctx, s, i/2, population.State(1-i%2))
		if err != nil {
			return err
		}
		s.Changes = append(s.Changes, took.Seconds()*1e3)
		time.Sleep(max(rest, took))
	}
	if last := len(s.Changes) - 1; last%2 == 0 {
		if _, err := b.change(ctx, s, last/2, population.Open); err != nil {
			return err
		}
		time.Sleep(rest)
	}
	after, err := b.syncs(ctx, s)
	s.Syncs = 1e3 * (after.seconds - before.seconds) / (after.count - before.count)
	return err
}

// change makes the i-th of the Services that are scattered over all have a state, and returns how long that takes from the answer of the
// API server until connections tell.
func (b *bench) change(ctx context.Context, s *stand, i int, to population.State) (time.Duration, error) {
	services := b.people.Services()
	i = (i*1117 + 500) % len(services)
	if err := b.people.Set(ctx, i, to); err != nil {
		return 0, err
	}
	start, err := probe.Now()
	if err != nil {
		return 0, err
	}
	outcome, streak := probe.Refused, 1
	if to == population.Open {
		outcome, streak = probe.Connected, b.streak()
	}
	end, reached, err := s.client.Until(services[i], outcome, streak, changePatience)
	if err == nil && !reached {
		err = fmt.Errorf("%s: a change did not arrive within %s; the end of its log:\n%s", s.who.Name, changePatience, s.proxy.LogTail(20))
	}
	return max(0, end.Since(start)), err
}

// streak is how many connections in a row tell that no endpoint is shut, where only a part of them is.
func (b *bench) streak() int {
	if b.people.Share() == 1 {
		return 1
	}
	return int(10 / b.people.Share()) // all of them succeed by chance once in 20,000 times
}

// synced is what a proxy says about its syncs.
type synced struct{ seconds, count float64 }

func (b *bench) syncs(ctx context.Context, s *stand) (all synced, err error) {
	const name = "sync_proxy_rules_duration_seconds"
	if all.seconds, err = b.value(ctx, s, name+"_sum"); err != nil {
		return all, err
	}
	all.count, err = b.value(ctx, s, name+"_count")
	return all, err
}
