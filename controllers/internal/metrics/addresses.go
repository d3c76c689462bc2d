package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/drift"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

var (
	addressesDesc = prometheus.NewDesc(prefix+"addresses",
		"Addresses of a range by band and state (allocated, free, reserved, cooling).",
		[]string{"servicecidr", "cidr", "family", "band", "state"}, nil)
	allocatedDesc = prometheus.NewDesc(prefix+"allocated_ips",
		"Addresses of a range that are in use.", []string{"servicecidr", "cidr"}, nil)
	availableDesc = prometheus.NewDesc(prefix+"available_ips",
		"Addresses of a range that are free.", []string{"servicecidr", "cidr"}, nil)
	allocationsDesc = prometheus.NewDesc(prefix+"allocation_total",
		"IPAddress objects that appeared in a band since the operator started, by any allocator.",
		[]string{"servicecidr", "cidr", "band"}, nil)
	migrationDesc = prometheus.NewDesc(prefix+"migration_addresses",
		"ClusterIPs of a cluster that allocates from the bitmap, by whether their IPAddress exists (ready, missing).", []string{"state"}, nil)
	driftDesc = prometheus.NewDesc(prefix+"drift",
		"Confirmed drift that is not repaired yet, by type.", []string{"type"}, nil)
)

// Addresses collects the gauges of every range from the address index, and of present drift from the trackers.
// A scrape costs O(ranges x log used).
type Addresses struct {
	Index *addressindex.Index
	// Migration: the API server allocates from the bitmap, and it is told how many addresses are ready for another one.
	Migration bool
	// Drift are the counts of everybody who tracks drift.
	Drift []func() map[drift.Type]int
}

// Describe implements prometheus.Collector.
func (c *Addresses) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{addressesDesc, allocatedDesc, availableDesc, allocationsDesc, migrationDesc, driftDesc} {
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
	cidr, family := r.Prefix().String(), upstream.Family(r.Prefix().Addr())
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
		out <- prometheus.MustNewConstMetric(allocationsDesc, prometheus.CounterValue, float64(allocations), name, cidr, b.String())
	}
	out <- gauge(allocatedDesc, float64(whole.Size-whole.Free), name, cidr)
	out <- gauge(availableDesc, float64(whole.Free), name, cidr)
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
