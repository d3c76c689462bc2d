package proxy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// flat are connections that all take the same.
func flat(micros float64) stats.Sample {
	s := make(stats.Sample, 100)
	for i := range s {
		s[i] = micros
	}
	return s
}

// figures of a proxy with these seconds, milliseconds and microseconds.
func figures(cold time.Duration, change, service, other float64) *Figures {
	return &Figures{
		Cold: cold, Changes: stats.Sample{change, change, 10 * change}, Syncs: stats.Sample{change}, Service: flat(service), Other: flat(other),
		Quiet: true, RSS: 100 << 20, CPU: 300 * time.Millisecond, Busy: flat(service + 10), Footprint: Footprint{1, 2, 3, 4000},
	}
}

// measured is a result that reaches every target but those that a test spoils.
func measured() Result {
	case10k := Case{
		Shape: Shape{model.IPv4, 10_000, 3, false}, Bare: Bare{Service: flat(20), Other: flat(19), ServiceNFT: flat(21), OtherNFT: flat(19.5), None: flat(17)},
		Figures: map[string]*Figures{
			oursLegacy:    figures(500*time.Millisecond, 100, 22, 20),
			oursNFT:       figures(2*time.Second, 50, 24, 21),
			oursNative:    figures(2*time.Second, 5, 21, 20),
			theirsLegacy:  figures(1500*time.Millisecond, 400, 36, 46),
			theirsNFT:     {Late: 200 * time.Second},
			theirsNFTable: figures(20*time.Second, 2000, 23, 20),
		},
	}
	for key, f := range case10k.Figures {
		if contender(key).Ours {
			f.RSS, f.Clients, f.Kept = 50<<20, 1000, 1000
		}
	}
	large := Case{
		Shape: Shape{model.IPv4, 30_000, 3, false}, Bare: Bare{Service: flat(20), Other: flat(19)},
		Figures: map[string]*Figures{oursLegacy: figures(time.Second, 300, 22, 20), theirsNFT: {Absent: "left out"}},
	}
	small := Case{
		Shape: Shape{model.IPv4, 1_000, 3, false}, Bare: Bare{Service: flat(20), Other: flat(19)},
		Figures: map[string]*Figures{oursLegacy: figures(time.Second, 10, 21.5, 20)},
	}
	return Result{Options: Options{Proxies: Keys()}, Cases: []Case{small, case10k, large}}
}

// rows returns the cells of those rows that begin with these cells.
func rows(t report.Table, begin ...string) (found []string) {
	for _, row := range t.Rows {
		if len(row) >= len(begin) && cmp.Equal(row[:len(begin)], begin) {
			found = append(found, strings.Join(row[len(begin):], " | "))
		}
	}
	return found
}

func TestTables(t *testing.T) {
	r := measured()
	cold, latency := r.compare("cold", (*Figures).cold), r.latency()
	want := []string{"cold", "ours, legacy", "ours, nft", "kube-proxy iptables, legacy", ": ours, legacy", "kube-proxy iptables, nft", ": ours, nft",
		"ours, nftables", "ours, nftables with socketLB", "kube-proxy nftables", ": ours, nftables"}
	if diff := cmp.Diff(want, cold.Header); diff != "" {
		t.Error(diff)
	}
	if got := rows(latency, "10,000 x 3", "kube-proxy iptables, nft"); got != nil {
		t.Errorf("a proxy that never started has %v", got)
	}
	for name, tc := range map[string]struct {
		table report.Table
		begin []string
		want  string
	}{
		"starts":         {cold, []string{"10,000 x 3"}, "0.50 | 2.00 | 1.50 | 3.00x | not within 200 | > 100x | 2.00 | - | 20.0 | 10.0x"},
		"starts, large":  {cold, []string{"30,000 x 3"}, "1.00 | - | - |  | left out |  | - | - | - | "},
		"no rule":        {latency, []string{"10,000 x 3", "no rule"}, " |  |  |  | 17.0"},
		"one rule":       {latency, []string{"10,000 x 3", "one DNAT rule, legacy"}, "20.0 | 0 | 0 | 0 | 19.0 | 0 | 0 | 0"},
		"one rule, nft":  {latency, []string{"10,000 x 3", "one DNAT rule, nft"}, "21.0 | 1.00 | 1.00 | 1.00 | 19.5 | 0.50 | 0.50 | 0.50"},
		"connections":    {latency, []string{"10,000 x 3", "kube-proxy iptables, legacy"}, "36.0 | 16.0 | 16.0 | 16.0 | 46.0 | 27.0 | 27.0 | 27.0"},
		"quiet":          {r.quiet(), []string{"10,000 x 3", "kube-proxy iptables, legacy"}, "100 | 2.00x | 300"},
		"quiet, ours":    {r.quiet(), []string{"10,000 x 3", "ours, nft"}, "50.0 |  | 300"},
		"footprint":      {r.footprint(), []string{"10,000 x 3", "kube-proxy nftables"}, "1 | 2 | 3 | 4.00 | 1.00x"},
		"affinity":       {r.affinity(), []string{"ours, nft"}, "1,000 | 1,000 | 100 %"},
		"busy":           {r.busy(), []string{"10,000 x 3", "kube-proxy iptables, legacy"}, "46.0 | 46.0 | 1.44x | 100 | 0 | 0 | 0"},
		"syncs by proxy": {r.ownWords(), []string{"30,000 x 3"}, "300 | - | - |  | left out |  | - | - | - | "},
	} {
		if diff := cmp.Diff([]string{tc.want}, rows(tc.table, tc.begin...)); diff != "" {
			t.Error(name, diff)
		}
	}
}

func TestTablesWithoutRowsAreLeftOut(t *testing.T) {
	if none, all := len(Result{}.Tables()), len(measured().Tables()); none != 0 || all != 8 {
		t.Errorf("%d tables of nothing, %d of everything", none, all)
	}
}
