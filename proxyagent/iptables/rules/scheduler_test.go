package rules

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// counter is a kernel that takes one connection after the other through chains: it counts in each rule with nth.
type counter struct {
	t        *testing.T
	chains   map[string][][]string // rules in words
	counts   map[ruleAt]int
	client   netip.Addr
	programs map[ruleAt]program
}

// ruleAt is that of a rule.
type ruleAt struct {
	chain string
	rule  int
}

func newCounter(t *testing.T, chains map[string][]string) counter {
	k := counter{t: t, chains: map[string][][]string{}, counts: map[ruleAt]int{}, programs: map[ruleAt]program{}}
	for name, rules := range chains {
		for _, rule := range rules {
			k.chains[name] = append(k.chains[name], strings.Fields(rule))
		}
	}
	return k
}

// connect returns where a connection ends that enters a chain.
func (k counter) connect(name string) string {
	for i, f := range k.chains[name] {
		switch {
		case !k.matches(ruleAt{name, i}, f):
		case after(f, "-j") == "DNAT":
			return after(f, "--to-destination")
		case after(f, "-g") != "":
			return k.connect(after(f, "-g"))
		}
	}
	return "nowhere"
}

// matches is what xt_statistic, xt_bpf and xt_set do. No client is remembered.
func (k counter) matches(rule ruleAt, f []string) bool {
	if every := after(f, "--every"); every != "" {
		n, first := number(k.t, every), number(k.t, after(f, "--packet"))
		if first >= n {
			k.t.Fatalf("%v: the kernel refuses packet %d of every %d", rule, first, n)
		}
		if _, begun := k.counts[rule]; !begun {
			k.counts[rule] = n - 1 - first
		}
		k.counts[rule] = (k.counts[rule] + 1) % n
		return k.counts[rule] == 0
	}
	if slices.Contains(f, "--bytecode") {
		if k.programs[rule] == nil {
			k.programs[rule] = readProgram(k.t, strings.Split(strings.Join(f, " "), `"`)[1])
		}
		return k.programs[rule].takes(k.t, k.client)
	}
	return after(f, "--match-set") == ""
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// program is one of xt_bpf, in words of code, jumps and number.
type program [][4]uint32

func readProgram(t *testing.T, text string) program {
	t.Helper()
	lines := strings.Split(text, ",")
	p := make(program, len(lines)-1)
	for i, line := range lines[1:] {
		if _, err := fmt.Sscan(line, &p[i][0], &p[i][1], &p[i][2], &p[i][3]); err != nil {
			t.Fatal(err)
		}
	}
	if len(p) != number(t, lines[0]) || len(p) > 64 {
		t.Fatalf("%s has %d instructions", text, len(p))
	}
	return p
}

// takes runs the program on a packet of a client, as the kernel does.
func (p program) takes(t *testing.T, client netip.Addr) bool {
	t.Helper()
	source := map[bool]int{false: 12, true: 8}[client.Is6()]
	packet := slices.Concat(make([]byte, source), client.AsSlice(), make([]byte, 16))
	var a, x uint32
	for at := 0; ; at++ {
		switch i := p[at]; i[0] {
		case unix.BPF_LD | unix.BPF_IMM:
			a = i[3]
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.BigEndian.Uint32(packet[i[3]:])
		case unix.BPF_MISC | unix.BPF_TAX:
			x = a
		case unix.BPF_ALU | unix.BPF_MUL | unix.BPF_K:
			a *= i[3]
		case unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K:
			a >>= i[3]
		case unix.BPF_ALU | unix.BPF_XOR | unix.BPF_X:
			a ^= x
		case unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K:
			a %= i[3]
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			if a >= i[3] {
				at += int(i[1])
			} else {
				at += int(i[2])
			}
		case unix.BPF_RET | unix.BPF_K:
			return i[3] != 0
		default:
			t.Fatalf("the instruction %v of %v", i, p)
		}
	}
}

// schedule writes the chains that choose one of the endpoints.
func schedule(s model.Scheduler, endpoints []netip.AddrPort, w model.Weights, turn uint32, affinity int) (start string, chains map[string][]string) {
	family := model.IPv4
	if len(endpoints) > 0 && endpoints[0].Addr().Is6() {
		family = model.IPv6
	}
	c := choice{port: plans.Name(), scheduler: s, weights: w, turn: turn, affinity: affinity, family: family, chains: map[string][]string{}}
	start = portChain(roleCluster, c.port)
	c.write(start, endpoints)
	if c.remember(endpoints); affinity == 0 {
		maps.DeleteFunc(c.chains, func(name string, _ []string) bool { return strings.HasPrefix(name, Prefix+roleEndpoint) })
	}
	return start, c.chains
}

// weigh gives endpoints weights, in their order and again from the first.
func weigh(endpoints []netip.AddrPort, weights ...uint8) model.Weights {
	w := model.Weights{}
	for i, e := range endpoints {
		w[e] = weights[i%len(weights)]
	}
	return w
}

// TestRoundsAreExact has three rounds of connections go to the endpoints in the order of their turns, wherever the first begins, with as many endpoints as stand in one
// chain and with more.
func TestRoundsAreExact(t *testing.T) {
	for _, family := range []model.Family{model.IPv4, model.IPv6} {
		for _, n := range []int{1, 2, 3, 7, 31, 32, 33, 40, 100, 331, 1000} { // around all thresholds
			for turn := range uint32(min(5, 1+300/n)) {
				endpoints := plans.Endpoints(family, n)
				expectRounds(t, model.RoundRobin, endpoints, weigh(endpoints, 7), endpoints, turn)
				if w := weigh(endpoints, 10, 2, 0, 4); n < 300 {
					able := able(endpoints, w)
					expectRounds(t, model.WeightedRoundRobin, endpoints, w, model.Interleave(able, weightsOf(able, w)), turn)
				}
			}
		}
	}
}

func expectRounds(t *testing.T, s model.Scheduler, endpoints []netip.AddrPort, w model.Weights, order []netip.AddrPort, turn uint32) {
	t.Helper()
	start, chains := schedule(s, endpoints, w, turn, int(turn)%2) // affinity takes the same turns
	k := newCounter(t, chains)
	first := choice{turn: turn}.start(start, order)
	for i := range 3 * len(order) {
		if got, want := k.connect(start), order[(first+i)%len(order)].String(); got != want {
			t.Fatalf("%s, turn %d: of %d endpoints the %dth connection goes to %s, want %s", s, turn, len(endpoints), i, got, want)
		}
	}
	for name, rules := range chains {
		if len(name) > 28 || turn == 0 && len(rules) > 2*sideBySide {
			t.Errorf("of %d endpoints the chain %s has %d rules", len(endpoints), name, len(rules))
		}
	}
}

// TestAnyCountIsFair has counts of rules that do not fit to each other, as after only some chains were written: each of any n connections that follow on
// each other still gets another endpoint.
func TestAnyCountIsFair(t *testing.T) {
	for _, n := range []int{2, 5, 32, 33, 100} {
		start, chains := schedule(model.RoundRobin, plans.Endpoints(model.IPv4, n), nil, 0, 0)
		k := newCounter(t, chains)
		for name, rules := range k.chains {
			for i, rule := range rules {
				if every := after(rule, "--every"); every != "" {
					k.counts[ruleAt{name, i}] = (7*i + 3) % number(t, every)
				}
			}
		}
		var got []string
		for range 3 * n {
			got = append(got, k.connect(start))
		}
		for i := range 2 * n {
			if window := slices.Sorted(slices.Values(got[i : i+n])); len(slices.Compact(window)) != n {
				t.Fatalf("of %d endpoints %d connections go to %v", n, n, got[i:i+n])
			}
		}
	}
}

// TestARoundBeginsElsewhere whenever the rules are written: after a change of the endpoints, and after Recount.
func TestARoundBeginsElsewhere(t *testing.T) {
	const n = 10
	starts := map[string]map[string]int{"another endpoint": {}, "Recount": {}}
	for i := range 200 {
		for what, change := range map[string]func() (string, map[string][]string){
			"another endpoint": func() (string, map[string][]string) {
				endpoints := plans.Endpoints(model.IPv4, n+i)
				return schedule(model.RoundRobin, append(endpoints[:n-1], endpoints[len(endpoints)-1]), nil, 0, 0)
			},
			"Recount": func() (string, map[string][]string) {
				return schedule(model.RoundRobin, plans.Endpoints(model.IPv4, n), nil, uint32(i), 0)
			},
		} {
			start, chains := change()
			k := newCounter(t, chains)
			starts[what][k.connect(start)]++
		}
	}
	for what, seen := range starts {
		for _, e := range plans.Endpoints(model.IPv4, n-1) {
			if times := seen[e.String()]; times < 200/n/3 || times > 200/n*3 {
				t.Errorf("%s: %s is first %d times of 200", what, e, times)
			}
		}
	}
}

// TestRoundsAreInterleaved pins smooth weighted round robin.
func TestRoundsAreInterleaved(t *testing.T) {
	for _, tc := range []struct {
		weights []uint8
		want    string
	}{
		{[]uint8{1, 1, 1}, "abc"}, {[]uint8{5, 1, 1}, "aabacaa"}, {[]uint8{2, 1, 2}, "acbac"}, {[]uint8{3, 0, 1}, "aaca"}, {[]uint8{0, 0, 0}, "abc"}, {[]uint8{1}, "a"},
	} {
		endpoints := plans.Endpoints(model.IPv4, len(tc.weights))
		w := weigh(endpoints, tc.weights...)
		able, got := able(endpoints, w), ""
		for _, e := range model.Interleave(able, weightsOf(able, w)) {
			got += string(rune('a' + slices.Index(endpoints, e)))
		}
		if got != tc.want {
			t.Errorf("weights %d: the order is %s, want %s", tc.weights, got, tc.want)
		}
	}
}

// TestProbabilitiesFollowWeights in one chain and in the tree. None of an endpoint is as good as no endpoint, unless all have none.
func TestProbabilitiesFollowWeights(t *testing.T) {
	for _, family := range []model.Family{model.IPv4, model.IPv6} {
		for _, affinity := range []int{0, 60} {
			for _, n := range []int{1, 2, 3, 12, 13, 40, 300} {
				for _, weights := range [][]uint8{{1}, {0}, {100}, {2, 0, 5}, {1, 100, 0, 7, 3}} {
					endpoints := plans.Endpoints(family, n)
					start, chains := schedule(model.Random, endpoints, weigh(endpoints, weights...), 0, affinity)
					w := newWalker(t, chains)
					w.walk(start, 1)
					proportional(t, w.ends, endpoints, weights)
				}
			}
		}
	}
}

func proportional(t *testing.T, ends map[string]float64, endpoints []netip.AddrPort, weights []uint8) {
	t.Helper()
	total := 0.0
	for i := range endpoints {
		total += float64(weights[i%len(weights)])
	}
	for i, e := range endpoints {
		want := float64(weights[i%len(weights)]) / total
		if total == 0 {
			want = 1 / float64(len(endpoints))
		}
		if math.Abs(ends[e.String()]-want)*float64(len(endpoints)) > 1e-6 {
			t.Errorf("weights %d: of %d endpoints %s gets %v of the clients, want %v", weights, len(endpoints), e, ends[e.String()], want)
		}
	}
}

// TestClientsAreHashed has the parts of clients follow the weights, whatever part of their addresses differs, and each meet one endpoint, with affinity the same.
func TestClientsAreHashed(t *testing.T) {
	for what, client := range map[string]func(i int) netip.Addr{
		"IPv4, the lowest bits":  func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}) },
		"IPv4, the highest bits": func(i int) netip.Addr { return netip.AddrFrom4([4]byte{byte(i), byte(i >> 8), 0, 1}) },
		"IPv6, the first word":   func(i int) netip.Addr { return netip.AddrFrom16([16]byte{0xfd, 2: byte(i >> 8), 3: byte(i), 15: 1}) },
		"IPv6, the second word":  func(i int) netip.Addr { return netip.AddrFrom16([16]byte{0xfd, 4: byte(i), 5: byte(i >> 8), 15: 1}) },
		"IPv6, the third word":   func(i int) netip.Addr { return netip.AddrFrom16([16]byte{0xfd, 8: byte(i >> 8), 9: byte(i), 15: 1}) },
		"IPv6, the last word":    func(i int) netip.Addr { return netip.AddrFrom16([16]byte{0xfd, 14: byte(i >> 8), 15: byte(i)}) },
	} {
		family := model.IPv4
		if strings.HasPrefix(what, "IPv6") {
			family = model.IPv6
		}
		for n, weights := range map[int][]uint8{1: {9}, 2: {1}, 5: {3, 0, 1}, 32: {1}, 33: {1, 2}, 70: {100, 0, 50}} {
			endpoints := plans.Endpoints(family, n)
			start, chains := schedule(model.SourceHashing, endpoints, weigh(endpoints, weights...), 0, 0)
			remembering, others := schedule(model.SourceHashing, endpoints, weigh(endpoints, weights...), 7, 60)
			k, again, met := newCounter(t, chains), newCounter(t, others), map[string]float64{}
			const clients = 2000
			for i := range clients {
				k.client, again.client = client(i), client(i)
				endpoint := k.connect(start)
				if met[endpoint]++; i%100 == 0 && again.connect(remembering) != endpoint {
					t.Errorf("%s: of %d endpoints %s meets %s, and another with affinity", what, n, k.client, endpoint)
				}
			}
			expectParts(t, fmt.Sprintf("%s, %d endpoints", what, n), met, endpoints, weights)
			for name, rules := range chains {
				if len(name) > 28 || len(rules) > sideBySide {
					t.Errorf("of %d endpoints the chain %s has %d rules", n, name, len(rules))
				}
			}
		}
	}
}

// expectParts holds what was met against what chance would give: within five standard deviations.
func expectParts(t *testing.T, what string, met map[string]float64, endpoints []netip.AddrPort, weights []uint8) {
	t.Helper()
	all, total := 0.0, 0.0
	for i, e := range endpoints {
		all, total = all+met[e.String()], total+float64(weights[i%len(weights)])
	}
	for i, e := range endpoints {
		p := float64(weights[i%len(weights)]) / total
		if off := math.Abs(met[e.String()] - all*p); off > 5*math.Sqrt(all*p*(1-p)) {
			t.Errorf("%s: %s with weight %d met %v of %v clients, want about %.0f", what, e, weights[i%len(weights)], met[e.String()], all, all*p)
		}
	}
	if met["nowhere"] > 0 {
		t.Errorf("%s: %v clients met no endpoint", what, met["nowhere"])
	}
}

// TestSchedulers lists what iptables has, and what it has instead of the rest.
func TestSchedulers(t *testing.T) {
	for _, tc := range []struct {
		ask       model.Scheduler
		endpoints int
		weights   []uint8
		unhashed  bool
		want      model.Scheduler         // empty: random
		without   model.DegradationReason // and why
	}{
		{ask: "", want: model.Random},
		{ask: model.Random, endpoints: 10000, want: model.Random},
		{ask: model.RoundRobin, endpoints: mostRules, weights: []uint8{100, 99}, want: model.RoundRobin},
		{ask: model.RoundRobin, endpoints: mostRules + 1, without: model.SchedulerTooDear},
		{ask: model.RoundRobin, endpoints: 2 * mostRules, weights: []uint8{1, 0}, want: model.RoundRobin},
		{ask: model.WeightedRoundRobin, endpoints: mostRules / 5, weights: []uint8{3, 2}, want: model.WeightedRoundRobin},
		{ask: model.WeightedRoundRobin, endpoints: 12, weights: []uint8{97, 96}, without: model.SchedulerTooDear},
		{ask: model.SourceHashing, endpoints: mostRules, weights: []uint8{100, 99}, want: model.SourceHashing},
		{ask: model.SourceHashing, endpoints: mostRules + 1, without: model.SchedulerTooDear},
		{ask: model.SourceHashing, endpoints: 2, unhashed: true, without: model.SchedulerUnavailable},
		{ask: model.MaglevHashing, without: model.SchedulerUnavailable}, {ask: model.LeastConnection, without: model.SchedulerUnavailable}, {ask: model.WeightedLeastConnection, without: model.SchedulerUnavailable}, {ask: model.LocalityLeastConnection, without: model.SchedulerUnavailable},
		{ask: model.LocalityLeastConnectionReplicas, without: model.SchedulerUnavailable}, {ask: model.DestinationHashing, without: model.SchedulerUnavailable}, {ask: model.ShortestExpectedDelay, without: model.SchedulerUnavailable}, {ask: model.NeverQueue, without: model.SchedulerUnavailable},
	} {
		for _, local := range []bool{false, true} {
			p := model.ServicePort{Scheduler: tc.ask, Cluster: plans.Endpoints(model.IPv4, tc.endpoints)}
			if len(tc.weights) > 0 {
				p.Weights = weigh(p.Cluster, tc.weights...)
			}
			if local {
				p.Cluster, p.Local = nil, p.Cluster
			}
			got, without := portGlobals{hashes: !tc.unhashed}.scheduler(p)
			if want := cmp.Or(tc.want, model.Random); got != want || without != tc.without {
				t.Errorf("%s of %d endpoints: got %s, %q, want %s, %q", tc.ask, tc.endpoints, got, without, want, tc.without)
			}
		}
	}
}

// asked is a port that asks for a scheduler.
func asked(s model.Scheduler, number uint16, endpoints int) *model.ServicePort {
	p := model.ServicePort{
		Name: named(model.TCP), Port: number, ClusterIPs: addrs("10.96.0.1"), Scheduler: s, HasEndpoints: true, Cluster: plans.Endpoints(model.IPv4, endpoints),
	}
	p.Name.Port = fmt.Sprint(s, number)
	return &p
}

func changeOf(ports ...*model.ServicePort) model.Delta {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for _, p := range ports {
		d.Ports[p.Name] = p
	}
	return d
}

// TestSchedulersThatAreNotHad are told of, until the port asks for another, and until the kernel is known to hash.
func TestSchedulersThatAreNotHad(t *testing.T) {
	r, g := NewRuleset(model.IPv4), complete(model.Globals{})
	maglev, hashed, turns := asked(model.MaglevHashing, 80, 2), asked(model.SourceHashing, 81, 4), asked(model.RoundRobin, 82, 2)
	r.Apply(model.Delta{Globals: &g})
	r.Apply(changeOf(maglev, hashed, turns))
	expectUnscheduled(t, r, maglev, hashed)
	if text := strings.Join(r.Describe(maglev.Name, "title"), "\n"); !strings.Contains(text, "without its scheduler") || !strings.Contains(text, "--mode random") {
		t.Errorf("described as\n%s", text)
	}
	if !r.AsksForHashes() {
		t.Error("it does not ask for what a port needs")
	}
	r.Written()
	r.HashesKnown()
	if r.AsksForHashes() || len(r.dirty) != 1 {
		t.Errorf("it asks again (%t), or writes %v", r.AsksForHashes(), r.dirty)
	}
	expectUnscheduled(t, r, maglev)
	if text := strings.Join(r.Describe(hashed.Name, "title"), "\n"); strings.Contains(text, "without") || !strings.Contains(text, "-m bpf") {
		t.Errorf("described as\n%s", text)
	}
	r.Apply(changeOf(asked(model.MaglevHashing, 80, 9)))
	expectUnscheduled(t, r, maglev)
	r.Withhold(maglev.Name)
	if got := r.Degraded(); len(got) != 1 || got[0].Reason != model.RulesRefused {
		t.Errorf("degraded: %v; a port that is not served does without more than its scheduler", got)
	}
	r.Release()
	expectUnscheduled(t, r, maglev)
	r.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{maglev.Name: nil}})
	expectUnscheduled(t, r)
	checkTargets(t, r)
}

func expectUnscheduled(t *testing.T, r *Ruleset, ports ...*model.ServicePort) {
	t.Helper()
	var want []model.Degradation
	for _, p := range ports {
		want = append(want, model.Degradation{Port: p.Name, Reason: model.SchedulerUnavailable})
	}
	if got := r.Degraded(); !slices.Equal(got, want) {
		t.Errorf("degraded: %v, want %v", got, want)
	}
}

// TestRecount moves rounds when, and only when, the table is written; what it writes is no difference to what the kernel has.
func TestRecount(t *testing.T) {
	r, g := NewRuleset(model.IPv4), complete(model.Globals{})
	turns, other := asked(model.RoundRobin, 80, 40), asked(model.Random, 81, 9)
	d := changeOf(turns, other)
	d.Globals = &g
	r.Apply(d)
	r.Written()
	before := Saved{chains: maps.Clone(r.chains)}
	if r.Recount(); len(r.dirty) > 0 {
		t.Errorf("without a change it writes %v", r.dirty)
	}
	g.KeepInvalid = true
	r.Apply(model.Delta{Globals: &g})
	if r.Recount(); len(r.dirty) != 1 {
		t.Errorf("a change of the other table writes %v", r.dirty)
	}
	r.Written()
	r.Apply(changeOf(asked(model.Random, 81, 8)))
	if r.Recount(); len(r.dirty) < 3 {
		t.Errorf("a change of the table writes %v alone", r.dirty)
	}
	r.Written()
	r.Apply(changeOf(other))
	g.KeepInvalid = false
	r.Apply(model.Delta{Globals: &g})
	for c, want := range r.chains {
		if !sameRules(want, before.chains[c]) {
			t.Errorf("the chain %s differs:\n%s", c.name, gocmp.Diff(before.chains[c], want))
		}
	}
	r.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{turns.Name: nil}})
	r.Written()
	r.Apply(changeOf(asked(model.Random, 81, 8)))
	if r.Recount(); len(r.dirty) != 1 {
		t.Errorf("without ports that count it writes %v", r.dirty)
	}
}
