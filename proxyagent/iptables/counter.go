package iptables

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// InvalidDropped returns how many packets of invalid connection-tracking state were dropped since the rule was written last.
func (p *Proxier) InvalidDropped(ctx context.Context) (uint64, error) {
	text, err := p.run.run(ctx, nil, p.run.save, "-c", "-t", string(filter))
	if err != nil {
		return 0, fmt.Errorf("reading counters: %w", err)
	}
	return packetsOf(string(text), "-A "+chainForward+" -m conntrack --ctstate INVALID -j DROP"), nil
}

// packetsOf finds the packet counter of a rule in what iptables-save -c prints: "[packets:bytes] rule".
func packetsOf(text, rule string) uint64 {
	for line := range strings.Lines(text) {
		counters, found, ok := strings.Cut(strings.TrimSpace(line), "] ")
		if !ok || found != rule {
			continue
		}
		packets, _, _ := strings.Cut(strings.TrimPrefix(counters, "["), ":")
		n, err := strconv.ParseUint(packets, 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return 0
}
