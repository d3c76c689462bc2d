package metrics

import "github.com/prometheus/client_golang/prometheus"

// kernelCounter is a counter that lives in the kernel. It is read at every scrape, and absent where that fails.
type kernelCounter struct {
	desc *prometheus.Desc
	read func() (uint64, error)
}

// CountInvalidDropped adds the number of packets dropped because connection tracking found no place for them. read is called at every
// scrape, possibly by several goroutines; while it fails the metric is absent. To be called once.
func (m *Metrics) CountInvalidDropped(read func() (uint64, error)) {
	m.kernel("iptables_ct_state_invalid_dropped_packets_total",
		"Packets dropped because connection tracking found them invalid.", read)
}

func (m *Metrics) kernel(name, help string, read func() (uint64, error)) {
	m.registry.MustRegister(kernelCounter{prometheus.NewDesc(prefix+name, help, nil, nil), read})
}

// Describe is part of prometheus.Collector.
func (c kernelCounter) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect is part of prometheus.Collector.
func (c kernelCounter) Collect(ch chan<- prometheus.Metric) {
	if n, err := c.read(); err == nil {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n))
	}
}
