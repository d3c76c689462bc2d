package proxyagent

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
)

const (
	// formerPeriod is the time between two counts of the connections to former addresses.
	formerPeriod = 5 * time.Second
	// formerParts keeps counting to a tenth of the time where reading many connections takes long.
	formerParts = 10
)

// countFormer counts connections to former addresses, while there are any, until ctx ends: an admin
// who moved a Service to another ClusterIP wants to know when the former one is unused.
func (a *Agent) countFormer(ctx context.Context) {
	told, wait := "", formerPeriod
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		began := time.Now()
		if connections, compiled, err := a.former(ctx); compiled && ctx.Err() == nil {
			a.Health.Counted(began, connections, err)
			if err != nil && err.Error() != told {
				logr.FromContextOrDiscard(ctx).Error(err, "The connections to former addresses cannot be counted, trying again")
			}
			told = fmt.Sprint(err)
		}
		wait = max(formerPeriod, formerParts*time.Since(began))
	}
}

// former counts for all families. It reports false before the families know what there is.
func (a *Agent) former(ctx context.Context) (all map[netip.Addr]int, compiled bool, err error) {
	all = map[netip.Addr]int{}
	for _, f := range a.families {
		if compiled, err = f.countFormer(ctx, all); !compiled || err != nil {
			return nil, compiled, err
		}
	}
	return all, compiled, nil
}

// countFormer adds the former addresses of the family and their connections.
func (f *family) countFormer(ctx context.Context, all map[netip.Addr]int) (compiled bool, err error) {
	f.mu.Lock()
	addresses, compiled := f.compiler.Former(), f.compiled
	f.mu.Unlock()
	if !compiled {
		return false, nil
	}
	connections := make(map[netip.Addr]int, len(addresses))
	for _, addr := range addresses {
		connections[addr] = 0
	}
	if len(addresses) > 0 {
		if err := f.Connections.Count(ctx, connections); err != nil {
			return true, fmt.Errorf("counting the connections to former addresses of %s: %w", f.Settings.Family, err)
		}
	}
	sum := 0
	for addr, n := range connections {
		all[addr] = n
		sum += n
	}
	f.Metrics.Former(f.Settings.Family, len(addresses), sum)
	return true, nil
}
