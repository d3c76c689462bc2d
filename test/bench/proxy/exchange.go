package proxy

import (
	"context"
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/conntrack"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Rates are how many requests were answered in a second, of each round: all on one connection, and
// each on a connection of its own.
type Rates struct{ One, Each stats.Sample }

// exchanges counts requests through each proxy in turn, and through no rule.
func (b *bench) exchanges(ctx context.Context, c *Case, all []*testNode) (err error) {
	if b.Requests == 0 {
		return nil
	}
	b.log.Step("%s: counting requests and answers", c.Shape)
	for _, s := range all {
		if err := s.server.Close(); err != nil {
			return err
		}
		if s.server, err = probe.Answer(s.net.Pod1, everywhere(b.family)); err != nil {
			return err
		}
	}
	return b.takeTurns(ctx, b.RateRounds, all, b.exchange)
}

// exchange counts requests to Services, where they are served, and to other addresses.
func (b *bench) exchange(s *testNode, round int) error {
	alone := b.Requests / 5
	type kind struct {
		to   []netip.AddrPort
		into *Rates
	}
	if _, err := s.client.Exchange(warmUp, true, b.people.SomeEndpoints(warmUp)...); err != nil {
		return err
	}
	for _, kind := range inTurn(round, kind{b.served(s, alone), &s.ToService}, kind{b.people.SomeEndpoints(alone), &s.ToOther}) {
		if len(kind.to) == 0 {
			continue
		}
		one, err := s.client.Exchange(b.Requests, false, kind.to[0])
		if err != nil {
			return err
		}
		each, err := s.client.Exchange(len(kind.to), true, kind.to...)
		if err != nil {
			return err
		}
		if round > 0 {
			kind.into.One, kind.into.Each = append(kind.into.One, one), append(kind.into.Each, each)
		}
	}
	return nil
}

// Tracked is what the kernel of a node tracks of connections between two pods, as many to Services
// and past them.
type Tracked struct {
	Connections int
	// Service and Other are entries, Translated those of Service whose destination was translated.
	Service, Other, Translated int
}

// remembered keeps connections in the table that their client has reset.
var remembered = map[string]string{"net/netfilter/nf_conntrack_tcp_timeout_close": "600"}

// forgotten is longer than entries stay without it.
const forgotten = 3 * time.Second

// track counts what the kernel tracks. Afterwards connections are remembered.
func (b *bench) track(ctx context.Context, c *Case, all []*testNode) error {
	if b.Tracked == 0 {
		return nil
	}
	b.log.Step("%s: counting tracked connections", c.Shape)
	if err := progress.Pause(ctx, forgotten); err != nil {
		return err
	}
	for _, s := range all {
		if err := b.trackThrough(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) trackThrough(ctx context.Context, s *testNode) error {
	if err := s.net.Node.Sysctl(remembered); err != nil {
		return err
	}
	s.Tracked.Connections = b.Tracked
	entries, translated, err := s.entries(ctx, b.family)
	for _, kind := range []struct {
		to   []netip.AddrPort
		into *int
	}{{b.served(s, b.Tracked), &s.Tracked.Service}, {b.people.SomeEndpoints(b.Tracked), &s.Tracked.Other}} {
		if err != nil || len(kind.to) == 0 {
			continue
		}
		if _, err = s.client.Count(b.Tracked, kind.to...); err != nil {
			return err
		}
		before, earlier := entries, translated
		entries, translated, err = s.entries(ctx, b.family)
		*kind.into = entries - before
		s.Tracked.Translated += translated - earlier
	}
	return err
}

// entries are those of the node's connection tracking over TCP, and how many are translated.
func (s *testNode) entries(ctx context.Context, f model.Family) (all, translated int, err error) {
	err = s.net.Node.Do(func() error {
		kernel, err := conntrack.Open()
		if err != nil {
			return err
		}
		defer kernel.Close()
		flows, err := kernel.Flows(ctx, conntrack.Query{Protocol: model.TCP, Family: f}, func(conntrack.Flow) bool { return true })
		for _, flow := range flows {
			all++
			if flow.ReplySource != flow.Destination {
				translated++
			}
		}
		return err
	})
	return all, translated, err
}
