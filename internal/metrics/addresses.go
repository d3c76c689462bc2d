package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/drift"
)

var (
	addressesDesc = prometheus.NewDesc(prefix+"addresses",
		"Addresses of a band of a range, by state: allocated, free (also what is in flight), reserved (by a policy, or an IPAddress of another manager) or cooling.",
		[]string{"servicecidr", "cidr", "family", "band", "state"}, nil)
	allocatedDesc = prometheus.NewDesc(prefix+"allocated_ips",
		"Addresses of a range that are not free.", []string{"servicecidr", "cidr"}, nil)
	availableDesc = prometheus.NewDesc(prefix+"available_ips",
		"Addresses of a range that are free.", []string{"servicecidr", "cidr"}, nil)
	cordonedDesc = prometheus.NewDesc(prefix+"cordoned",
		"1 for a range that a policy has cordoned: no Service is given an address of it, and alerts on how full it is are silent. Absent for other ranges.",
		[]string{"servicecidr", "cidr"}, nil)
	allocationsDesc = prometheus.NewDesc(prefix+"allocation_total",
		"IPAddresses that appeared in a band since the operator started, by any allocator; in each range that offers the address.",
		[]string{"servicecidr", "cidr", "band"}, nil)
	migrationDesc = prometheus.NewDesc(prefix+"migration_addresses",
		"Only where the API server allocates from the bitmap: ClusterIPs whose IPAddress exists (ready) and whose does not (missing).", []string{"state"}, nil)
	driftDesc = prometheus.NewDesc(prefix+"drift",
		"Confirmed drift that is not repaired yet, by type.", []string{"type"}, nil)
	inFlightDesc = prometheus.NewDesc(prefix+"admission_in_flight_addresses",
		"Addresses that were handed out to Services, or are being written, and that the cluster does not show yet; 0 when no Services come. "+
			"Of interest on the leader: others draw only without it.", nil, nil)
	collisionsDesc = prometheus.NewDesc(prefix+"admission_collisions_total",
		"Addresses that were handed out to one Service and became another one's; the API server refused one of the two creations. "+
			"They come while no replica leads, or others do not reach the leader.", nil, nil)
)

// Addresses collects what the address index knows of every range and of what is in flight, and
// drift from the trackers. A scrape costs O(ranges x log used).
type Addresses struct {
	Index *addressindex.Index
	// Migration: the API server allocates from the bitmap, and a metric tells how many addresses are
	// ready for another API server.
	Migration bool
	// Cordoned reports whether a policy has cordoned a range; nil where there are no policies.
	Cordoned func(allocator.Range) bool
	// Drift are the counts of all drift trackers.
	Drift []func() map[drift.Type]int
}

// Describe implements prometheus.Collector.
func (c *Addresses) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{addressesDesc, allocatedDesc, availableDesc, cordonedDesc, allocationsDesc, migrationDesc, driftDesc, inFlightDesc, collisionsDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Addresses) Collect(out chan<- prometheus.Metric) {
	for _, cidr := range c.Index.ServiceCIDRs() {
		for _, r := range cidr.Ranges {
			c.collectRange(out, cidr.Name, r)
		}
	}
	out <- gauge(inFlightDesc, float64(c.Index.InFlight()))
	out <- counter(collisionsDesc, float64(c.Index.Collisions()))
	if c.Migration {
		claimed, covered := c.Index.Relation()
		out <- gauge(migrationDesc, float64(covered), "ready")
		out <- gauge(migrationDesc, float64(claimed-covered), "missing")
	}
	total := map[drift.Type]int{}
	for _, counts := range c.Drift {
		for t, n := range counts() {
			total[t] += n
		}
	}
	for _, t := range drift.Types() {
		out <- gauge(driftDesc, float64(total[t]), string(t))
	}
}

func (c *Addresses) collectRange(out chan<- prometheus.Metric, name string, r allocator.Range) {
	cidr, family := r.Prefix().String(), r.Family().String()
	var whole allocator.Usage
	for _, b := range []allocator.Band{allocator.Static, allocator.Dynamic} {
		u := c.Index.Usage(r.Band(b))
		whole.Free += u.Free
		whole.Size += u.Size
		for state, n := range map[allocator.State]uint64{
			allocator.Allocated: u.Allocated, allocator.Free: u.Free,
			allocator.Reserved: u.Reserved, allocator.Cooling: u.Cooling,
		} {
			out <- gauge(addressesDesc, float64(n), name, cidr, family, b.String(), state.String())
		}
		allocations := c.Index.Allocations(name, addressindex.RangeBand{CIDR: r.Prefix(), Band: b})
		out <- counter(allocationsDesc, float64(allocations), name, cidr, b.String())
	}
	out <- gauge(allocatedDesc, float64(whole.Size-whole.Free), name, cidr)
	out <- gauge(availableDesc, float64(whole.Free), name, cidr)
	if c.Cordoned != nil && c.Cordoned(r) {
		out <- gauge(cordonedDesc, 1, name, cidr)
	}
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}
