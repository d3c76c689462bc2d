package proxy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

// extreme is what a part of a name has measured: all that it can, and no target missed.
func extreme(name string) ExtremeResult {
	e := Extremes[slices.IndexFunc(Extremes, func(e Extreme) bool { return e.Name == name })]
	one := func(took, sync, written float64) Steps {
		return Steps{Took: stats.Sample{took}, Syncs: stats.Sample{sync}, Written: stats.Sample{written}}
	}
	ours := &Figures{
		Cold: 2 * time.Second, Restart: time.Second, More: one(1, 0.5, 4), Less: one(2, 0.5, 5), RSS: 10 << 20, Peak: 20 << 20, Live: 5 << 20,
		Changes: stats.Sample{3, 4, 5}, Syncs: stats.Sample{1, 2, 9}, Translation: Translation{Maps: 1 << 20},
		Same:    Comparison{5 * time.Second, 4 * time.Second, one(3, 1, 4)},
		Drifted: Comparison{6 * time.Second, 5 * time.Second, one(100, 1, 4)},
		Left:    Left{Steps: one(8, 7, 2), Clients: 50_000}, Busy: flat(20),
	}
	theirs := &Figures{
		Cold: 20 * time.Second, Late: 4 * time.Minute, More: Steps{Took: stats.Sample{100}, Syncs: stats.Sample{90}}, RSS: 20 << 20, Peak: 60 << 20, Live: 15 << 20,
		Left: Left{Steps: one(80, 70, 2), Clients: 50_000, After: 7, Last: time.Second}, Busy: flat(40), Failed: 100,
	}
	o := e.full
	o.Proxies = []string{oursNative, theirsNFTable, theirsLegacy}
	return ExtremeResult{Result{Options: o, Cases: []Case{{
		Shape:   Shape{model.IPv4, targetSize, 3, false},
		Figures: map[string]*Figures{oursNative: ours, theirsNFTable: theirs, theirsLegacy: {Late: 4 * time.Minute, Stuck: time.Minute}},
	}}}, e}
}

func TestTablesOfExtremes(t *testing.T) {
	const shape = "10,000 x 3"
	for name, want := range map[string]map[string][]string{
		"proxy-sizes": {
			coldStart:                  {shape + " | not within 4 min |  | 2.00 | 20.0 | 10.0x"},
			"memory after the changes": {shape + " | ours, nftables | 10.0 |  | 20.0 |  | 5.00 | ", shape + " | kube-proxy nftables | 20.0 | 2.00x | 60.0 | 3.00x | 15.0 | 3.00x"},
			"3 endpoints, one more and one less": {
				shape + " | ours, nftables | 1.00 |  | 0.50 | 4.00 | 2.00 |  | 0.50 | 5.00",
				shape + " | kube-proxy nftables | 100 | 100x | 90.0 | - | - |  | - | -",
			},
			"all compared with the kernel": {
				shape + " | ours, nftables | nothing | 5.00 | 4.00 | 3.00", shape + " | ours, nftables | one element more | 6.00 | 5.00 | 100",
			},
		},
		"proxy-large": {shape: {
			"Cold start, s | not within 4 min | 2.00 | 20.0",
			"One change of an EndpointSlice, median, ms | not within 60,000 | 4.00 | ",
			"Sync of it, as the proxy counts it, ms |  | 2.00 | ",
			"All compared with the kernel, s | - | 5.00 | -",
			"The same, processor time, s | - | 4.00 | -",
			"A change meanwhile, ms | - | 3.00 | -",
			"All compared, one element differs, s | - | 6.00 | -",
			"The same, processor time, s | - | 5.00 | -",
			"A change meanwhile, ms | - | 100 | -",
			"Memory (RSS), MiB | - | 10.0 | 20.0",
			"At most until then, MiB | - | 20.0 | 60.0",
			"Heap in use after a collection, MiB | - | 5.00 | 15.0",
			"BPF maps in the kernel, MiB | - | 1.00 | -",
		}, "sync of one change, ms": {shape + " | ours, nftables | 2.00 | 9.00"}},
		"proxy-affinity": {
			coldStart:             {shape + " | not within 4 min |  | 2.00 | 20.0 | 10.0x"},
			"restart to rules, s": {shape + " |  |  | 1.00 | not within 4 min | > 240x"},
		},
		"proxy-endpoints": {
			coldStart: {shape + " | not within 4 min |  | 2.00 | 20.0 | 10.0x"},
			"one of the endpoints goes and comes": {
				shape + " | ours, nftables | 1.00 |  | 0.50 | 4.00 | 2.00 |  | 0.50 | 5.00",
				shape + " | kube-proxy nftables | 100 | 100x | 90.0 | - | - |  | - | -",
			},
		},
		"proxy-clients": {"an endpoint goes to which all clients came": {
			"ours, nftables | 50,000 | 8.00 |  | 7.00 | 2.00 | 0 | 0", "kube-proxy nftables | 50,000 | 80.0 | 10.0x | 70.0 | 2.00 | 7 | 1,000",
		}},
		"proxy-scaling": {"new connections to Services while endpoints change, µs": {
			shape + " | ours, nftables | 20.0 | 20.0 |  | 100 | 0 | 0 | 0", shape + " | kube-proxy nftables | 40.0 | 40.0 | 2.00x | 100 | 100 | 0 | 0",
		}},
	} {
		got := map[string][]string{}
		for _, table := range extreme(name).Tables() {
			for _, row := range table.Rows {
				got[table.Header[0]] = append(got[table.Header[0]], strings.Join(row, " | "))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(name, diff)
		}
	}
}

func TestNotesOfExtremes(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*Figures)
		want  []string // what the targets are about
		lost  []string // of them, those that are missed when it is spoilt
	}{
		"proxy-sizes": {
			func(f *Figures) { f.Drifted.Change.Took[0] = 101 },
			[]string{"10,000 x 3: ours, nftables has a change within 100 ms while it compares (3.00).", "10,000 x 3: ours, nftables has a change within 100 ms while it compares (100)."},
			[]string{"10,000 x 3: ours, nftables has a change within 100 ms while it compares (101)."},
		},
		"proxy-large": {
			func(f *Figures) { f.Same.Change.Took[0] = 101 },
			[]string{"10,000 x 3: ours, nftables has a change within 100 ms while it compares (3.00).", "10,000 x 3: ours, nftables has a change within 100 ms while it compares (100)."},
			[]string{"10,000 x 3: ours, nftables has a change within 100 ms while it compares (101)."},
		},
		"proxy-affinity": {
			func(f *Figures) { f.Cold = 3 * time.Second },
			[]string{"cold start, s, affinity of 10,000 x 3: ours, nftables at most 2.00 (2.00)."},
			[]string{"cold start, s, affinity of 10,000 x 3: ours, nftables at most 2.00 (3.00)."},
		},
		"proxy-endpoints": {
			func(f *Figures) { f.Less.Written[0] = 30_003 },
			[]string{"10,000 x 3: ours, nftables writes at most 10 elements as an endpoint goes (5.00)."},
			[]string{"10,000 x 3: ours, nftables writes at most 10 elements as an endpoint goes (30,003)."},
		},
		"proxy-clients": {
			func(f *Figures) { f.Left.After = 4_357 },
			[]string{"ours, nftables leads no client to an endpoint that has gone (0)."},
			[]string{"ours, nftables leads no client to an endpoint that has gone (4,357)."},
		},
		"proxy-scaling": {
			func(f *Figures) { f.Failed = 44 },
			[]string{"ours, nftables fails no connection while 10 endpoints become one and 10 again (0 of 100)."},
			[]string{"ours, nftables fails no connection while 10 endpoints become one and 10 again (44 of 144)."},
		},
	} {
		r := extreme(name)
		reached := told(r, "Target reached: ")
		tc.spoil(r.Cases[0].Figures[oursNative])
		if diff := cmp.Diff([][]string{tc.want, tc.lost}, [][]string{reached, told(r, "Target missed: ")}); diff != "" {
			t.Error(name, diff)
		}
	}
}

// told are the notes that begin alike.
func told(r ExtremeResult, begin string) (all []string) {
	for _, note := range r.Notes() {
		if text, ok := strings.CutPrefix(note, begin); ok {
			all = append(all, text)
		}
	}
	return all
}

func TestLeftCountsCallsThatBeganAfterTheEnd(t *testing.T) {
	gone, stays, end := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("10.0.0.2:80"), time.Now()
	var l Left
	l.count([]call{
		{end.Add(-time.Second), gone}, {end, gone}, {end.Add(time.Millisecond), gone}, {end.Add(2 * time.Millisecond), stays}, {end.Add(time.Second), gone},
	}, end, gone)
	if l.After != 2 || l.Last != time.Second {
		t.Errorf("%d, the last after %s", l.After, l.Last)
	}
}

// TestExtremesMeasureWhatTheyShow: an Extreme whose numbers are all left out would show nothing.
func TestExtremesMeasureWhatTheyShow(t *testing.T) {
	for _, e := range Extremes {
		for _, o := range []Options{e.full, e.quick} {
			if len(o.plans()) == 0 || o.Timeout == 0 || o.Quiet > 0 || o.Scaling && o.Busy == 0 || o.Scale != population.Open && o.Changes == 0 || o.Leave && o.Clients == 0 {
				t.Errorf("%s: %+v", e.Name, o)
			}
		}
	}
}
