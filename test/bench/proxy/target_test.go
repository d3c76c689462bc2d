package proxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNotesWhenEverythingIsReached(t *testing.T) {
	want := []string{
		"Target reached: cold start: ours, legacy at least 3.00 times sooner than kube-proxy iptables, legacy (3.00x).",
		"Target reached: one EndpointSlice change: ours, legacy at least 4.00 times sooner than kube-proxy iptables, legacy (4.00x).",
		"Target reached: cold start: ours, nft at least 30.0 times sooner than kube-proxy iptables, nft (> 100x).",
		"Target reached: cold start: ours, nftables at least 10.0 times sooner than kube-proxy nftables (10.0x).",
		"Target reached: one EndpointSlice change: ours, nftables at least 200 times sooner than kube-proxy nftables (400x).",
		"Target reached: one change, ms: ours, nftables at most 10.0 (5.00).",
		"Target reached: ours, legacy adds at most 5 µs to a connection to a Service, p50 (2.00).",
		"Target reached: ours, legacy adds at most 3 µs to another connection, p50 (1.00).",
		"Target reached: ours, legacy adds at least 5 times less than kube-proxy iptables, legacy (8.00x).",
		"Target reached: ours, nft adds at most 5 µs to a connection to a Service, p50 (4.00).",
		"Target reached: ours, nft adds at most 3 µs to another connection, p50 (2.00).",
		"Target reached: ours, nftables adds at most 2 µs to a connection to a Service, p50 (1.00).",
		"Target reached: ours, nftables adds at most 3 µs to another connection, p50 (1.00).",
		"Target reached: ours, nftables adds at least 1 times less than kube-proxy nftables (3.00x).",
		"Target reached: ours, legacy uses at most 1 % of a processor in a quiet minute (0.50 %).",
		"Target reached: ours, legacy needs at most half of the memory of kube-proxy iptables, legacy (50 %).",
		"Target reached: ours, nft uses at most 1 % of a processor in a quiet minute (0.50 %).",
		"Target reached: ours, nftables uses at most 1 % of a processor in a quiet minute (0.50 %).",
		"Target reached: ours, nftables needs at most half of the memory of kube-proxy nftables (50 %).",
		"Target reached: while endpoints change, p99 of new connections through ours, legacy is not worse than through kube-proxy iptables, legacy " +
			"(32.0 and 46.0 µs).",
		"Target reached: while endpoints change, p99 of new connections through ours, nftables is not worse than through kube-proxy nftables " +
			"(31.0 and 33.0 µs).",
		"Target reached: ours, legacy adds at most 1.50 times as much with 30,000 Services as with 1,000 (1.33).",
		"Target reached: ours, legacy keeps the affinity of all of 1,000 clients (1,000).",
		"Target reached: ours, nft keeps the affinity of all of 1,000 clients (1,000).",
		"Target reached: ours, nftables keeps the affinity of all of 1,000 clients (1,000).",
	}
	if diff := cmp.Diff(want, measured().Notes()); diff != "" {
		t.Error(diff)
	}
}

func TestNotesSayWhatIsMissed(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*Result)
		want  []string // what the missed targets are about
	}{
		"a slow start": {func(r *Result) { r.Cases[1].Figures[oursLegacy].Cold = 501 * time.Millisecond }, []string{"cold start: ours, legacy"}},
		"a start that never ends": {func(r *Result) { r.Cases[1].Figures[oursNFT] = &Figures{Late: time.Minute} },
			[]string{"cold start: ours, nft at"}},
		"a slow change": {func(r *Result) { r.Cases[1].Figures[oursNative].Changes = []float64{11} }, []string{"one EndpointSlice change: ours, nftables", "one change, ms"}},
		"a slow change among many": {func(r *Result) {
			r.Cases = append(r.Cases, Case{Shape: Shape{4, 1, 1_000, false}, Figures: map[string]*Figures{oursNative: {Changes: []float64{6}}}})
		}, []string{"one of 1,000 endpoints of one Service, ms: ours, nftables at most 5.00 (6.00)"}},
		"a mixed cluster that costs more": {func(r *Result) {
			c := r.Cases[1]
			c.Shape.Mixed, c.Figures = true, map[string]*Figures{oursNFT: {Service: flat(26), Other: flat(20)}}
			r.Cases = append(r.Cases, c)
		}, []string{"mixed: ours, nft adds at most 5", "ours, nft adds at most 1.30 times as much in a mixed cluster (1.50)"}},
		"slow connections": {func(r *Result) { r.Cases[1].Figures[oursLegacy].Service = flat(25.1) },
			[]string{"ours, legacy adds at most 5", "ours, legacy adds at least 5"}},
		"other connections suffer": {func(r *Result) { r.Cases[1].Figures[oursNFT].Other = flat(22.1) }, []string{"ours, nft adds at most 3"}},
		"slower when there are more": {func(r *Result) { r.Cases[2].Figures[oursLegacy].Service = flat(22.3) },
			[]string{"ours, legacy adds at most 1.50 times"}},
		"memory":                       {func(r *Result) { r.Cases[1].Figures[oursLegacy].RSS = 51 << 20 }, []string{"ours, legacy needs at most half"}},
		"no rest":                      {func(r *Result) { r.Cases[1].Figures[oursNFT].CPU = time.Second }, []string{"ours, nft uses"}},
		"worse while endpoints change": {func(r *Result) { r.Cases[1].Figures[oursLegacy].Busy = flat(47) }, []string{"while endpoints change"}},
		"a client goes astray":         {func(r *Result) { r.Cases[1].Figures[oursNFT].Kept = 999 }, []string{"ours, nft keeps"}},
	} {
		r := measured()
		tc.spoil(&r)
		var missed []string
		for _, note := range r.Notes() {
			if text, ok := strings.CutPrefix(note, "Target missed: "); ok {
				missed = append(missed, text)
			}
		}
		if !slices.EqualFunc(missed, tc.want, strings.HasPrefix) {
			t.Errorf("%s: missed %q, want %q", name, missed, tc.want)
		}
	}
}

func TestNotesAreSilentAboutWhatWasNotMeasured(t *testing.T) {
	r := Result{Options: Options{Proxies: Keys()}, Cases: []Case{{Shape: Shape{4, 10_000, 3, false}, Figures: map[string]*Figures{}}}}
	if notes := r.Notes(); len(notes) > 0 {
		t.Errorf("%q", notes)
	}
}

func TestPick(t *testing.T) {
	picked, err := pick([]string{theirsLegacy, oursLegacy})
	if err != nil || len(picked) != 2 || picked[0].Key != oursLegacy {
		t.Errorf("%v, %v; want the two, ours first", picked, err)
	}
	if _, err := pick([]string{"ipvs"}); err == nil {
		t.Error("an unknown proxy is accepted")
	}
}

func TestPlans(t *testing.T) {
	if diff := cmp.Diff([]int{1}, Full().plans()[0].sizes); diff != "" {
		t.Error(diff)
	}
	o := Full()
	o.Endpoints, o.SizesV6, o.MixedV6, o.Mixed = 0, nil, nil, nil
	if plans := o.plans(); len(plans) != 1 || !plans[0].sticky {
		t.Errorf("%+v, want the large cluster alone", plans)
	}
}
