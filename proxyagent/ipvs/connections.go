//go:build linux

package ipvs

import (
	"errors"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Connections are how many connections the virtual servers of each Service, unless zero, have got
// since they were made. The kernel, asked for all at once, adds them up every two seconds. During a
// Sync it fails: that may take longer than a scrape waits.
func (p *Proxier) Connections() (map[model.ServiceName]uint64, error) {
	servers, err := p.kernel.services()
	if err != nil {
		return nil, err
	}
	if !p.mu.TryLock() {
		return nil, errors.New("virtual servers are changing")
	}
	defer p.mu.Unlock()
	all := map[model.ServiceName]uint64{}
	for f, s := range servers {
		if port := p.table.claimed(f).port; port != nil && s.Stats64.Connections > 0 {
			all[port.Name.Service] += s.Stats64.Connections
		}
	}
	return all, nil
}
