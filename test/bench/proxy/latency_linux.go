package proxy

import (
	"context"
	"errors"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
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
