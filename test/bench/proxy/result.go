package proxy

import (
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// Shape is what a cluster holds.
type Shape struct {
	Family              model.Family
	Services, Endpoints int
	// Mixed clusters have more than ClusterIPs.
	Mixed bool
}

// String returns "10,000 x 3", and what is special.
func (s Shape) String() string {
	text := stats.Count(s.Services) + " x " + stats.Count(s.Endpoints)
	if s.Family == model.IPv6 {
		text += ", IPv6"
	}
	if s.Mixed {
		text += ", mixed"
	}
	return text
}

// Result is what was measured, and on which versions.
type Result struct {
	Options  Options
	Versions string
	Cases    []Case
}

// Case is one cluster.
type Case struct {
	Shape Shape
	// Figures by the Key of the contender.
	Figures map[string]*Figures
	// Bare is what connections take without a proxy.
	Bare Bare
}

// Figures are of one proxy in one cluster. What was not measured is zero.
type Figures struct {
	// Absent says why there are none, unless it is empty.
	Absent string
	// Late is how long we waited in vain for the start.
	Late time.Duration

	// Cold is from start until all is in the kernel, Restart the same with a first process's rules.
	Cold, Restart time.Duration
	// Changes are milliseconds from the API server's answer to the rules, Syncs what the proxy itself
	// says its syncs of each took, and InMaps what the maps of connect() took of them.
	Changes, Syncs, InMaps stats.Sample
	// Stuck is how long we waited in vain for a change of kube-proxy's.
	Stuck time.Duration

	// Messages are those to IPVS for the last change, of ours.
	Messages int

	// Service and Other are microseconds of new connections to Services and to other addresses.
	Service, Other stats.Sample

	// ToService and ToOther are about requests that are answered.
	ToService, ToOther Rates
	Tracked            Tracked

	Footprint Footprint
	// Translation is what a proxy that translates at connect() has in the kernel.
	Translation Translation

	// RSS is in bytes; CPU is what it used in a quiet minute. Quiet says that they were measured.
	Quiet bool
	RSS   int64
	CPU   time.Duration

	// Kept is how many of the Clients came to the same endpoint again.
	Kept, Clients int

	// Busy are microseconds of new connections to Services while endpoints changed, Failed how many
	// failed, BusySyncs how often the proxy synced meanwhile, after Pushed changes.
	Busy              stats.Sample
	Failed            int
	BusySyncs, Pushed int

	// More and Less are changes by one endpoint more and one less.
	More, Less Steps
	// Peak is the most memory that it had until the end of the changes, in bytes, as RSS. Live is what
	// its heap has in use after a collection.
	Peak, Live int64
	// Same and Drifted are comparisons of all with the kernel, after another program wrote
	// elsewhere and after it added an element of its own to a set of ours.
	Same, Drifted Comparison
	// Left is about the end of an endpoint to which all clients came.
	Left Left
}

// Bare is the base line.
type Bare struct {
	// Service is through a single DNAT rule, Other past it; ServiceNFT and OtherNFT are the same with
	// iptables-nft. None is without any rule, hence without connection tracking.
	Service, Other, ServiceNFT, OtherNFT, None stats.Sample
	// Rates and Tracked are without any rule.
	Rates   Rates
	Tracked Tracked
}

// find returns the case of many Services of IPv4, nil if there is none.
func (r Result) find(services int, mixed bool) *Case {
	return r.findShape(Shape{Family: model.IPv4, Services: services, Endpoints: endpoints, Mixed: mixed})
}

func (r Result) findShape(s Shape) *Case {
	for i := range r.Cases {
		if r.Cases[i].Shape == s {
			return &r.Cases[i]
		}
	}
	return nil
}

// of returns the figures of a contender. They are empty if there are none.
func (c *Case) of(key string) *Figures {
	if f := c.Figures[key]; f != nil {
		return f
	}
	return &Figures{Absent: "-"}
}

// String is a line for the progress.
func (f *Figures) String() string {
	return fmt.Sprintf("cold %s s, change %s ms (itself: %s), %d rules, %d chains",
		f.cold(), f.change(), stats.Number(f.Syncs.Median()), f.Footprint.Rules, f.Footprint.Chains)
}
