package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/nodeports"
)

var (
	allocatedPortsDesc = prometheus.NewDesc(prefix+"nodeport_allocated_ports",
		"Node ports of a band (static or dynamic, KEP-3668) that Services have.", []string{"band"}, nil)
	availablePortsDesc = prometheus.NewDesc(prefix+"nodeport_available_ports",
		"Node ports of a band that no Service has, by the range that the operator was told.", []string{"band"}, nil)
	portsOutsideDesc = prometheus.NewDesc(prefix+"nodeport_ports_outside_range",
		"Node ports of Services that lie outside of the range that the operator was told: kube-apiserver has another one, or had.", nil, nil)
)

// NodePorts collects what the index of node ports has, at a cost that depends on nothing.
type NodePorts struct{ Index *nodeports.Index }

// Describe implements prometheus.Collector.
func (c *NodePorts) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{allocatedPortsDesc, availablePortsDesc, portsOutsideDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *NodePorts) Collect(out chan<- prometheus.Metric) {
	u := c.Index.Usage()
	for band, of := range map[allocator.Band]nodeports.BandUsage{allocator.Static: u.Static, allocator.Dynamic: u.Dynamic} {
		out <- gauge(allocatedPortsDesc, float64(of.Allocated), band.String())
		out <- gauge(availablePortsDesc, float64(of.Size-of.Allocated), band.String())
	}
	out <- gauge(portsOutsideDesc, float64(u.Outside))
}
