// Package proxy compares Service proxies: ours and the real kube-proxy, each in network namespaces
// of its own, all on one control plane.
//
// For each size of the cluster the proxies are started one after the other, each alone: how long
// until all is in the kernel, how long a change takes. Those that are done are paused, and their
// rules stay. Then new connections are timed through all of them in turn; then all may do nothing
// for a while, together; then each has to keep up with endless changes while connections are timed.
//
// Start with Run. node.go is a proxy in its namespaces; alone.go has what each does alone,
// together.go what is measured of all, exchange.go requests, answers and tracked connections, and
// socketlb.go what only a proxy has that translates at connect(); table.go and target.go show it.
// An Extreme is a part of this with clusters unlike most: extreme.go lists them, step.go and
// compare.go measure only for them.
package proxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
)

// Contender is a Service proxy in one of its modes.
type Contender struct {
	// Key is for flags, Name for people.
	Key, Name string
	// Ours tells our agent from kube-proxy.
	Ours bool
	// Mode is that of kube-proxy; Variant is the kind of iptables, empty where none is used.
	Mode, Variant string
	// Peer is the Key of that of ours with which it is compared; empty for ours.
	Peer string
	// Socket has ours translate at connect() what the client connects to.
	Socket bool
	// Off is a feature gate of kube-proxy to switch off; empty for none.
	Off string
	// Most is the largest number of Services with which it makes sense to wait for it; 0 means any.
	Most int
}

// Keys of the contenders.
const (
	oursNFT       = "ours-nft"
	oursLegacy    = "ours-legacy"
	theirsLegacy  = "kube-proxy-legacy"
	theirsNFT     = "kube-proxy-nft"
	theirsNFTable = "kube-proxy-nftables"
	oursNative    = "ours-nftables"
	oursSocket    = "ours-socketlb"
	oursIPVS      = "ours-ipvs"
	theirsIPVS    = "kube-proxy-ipvs"
)

// Contenders are all of them. Those of kube-proxy that need minutes for a start with 10,000
// Services need up to hours for 30,000.
var Contenders = []Contender{
	{Key: oursLegacy, Name: "ours, legacy", Ours: true, Variant: "legacy"},
	{Key: oursNFT, Name: "ours, nft", Ours: true, Variant: "nft"},
	{Key: theirsLegacy, Name: "kube-proxy iptables, legacy", Mode: "iptables", Variant: "legacy", Peer: oursLegacy},
	{Key: theirsNFT, Name: "kube-proxy iptables, nft", Mode: "iptables", Variant: "nft", Peer: oursNFT, Most: 10_000},
	{Key: oursNative, Name: "ours, nftables", Ours: true, Mode: "nftables"},
	{Key: oursSocket, Name: "ours, nftables with socketLB", Ours: true, Mode: "nftables", Socket: true},
	{Key: theirsNFTable, Name: "kube-proxy nftables", Mode: "nftables", Peer: oursNative, Most: 10_000},
}

// onRequest are measured only where they are named. Those of IPVS need it in the kernel, and run in
// a machine that has it: see IPVS.
var onRequest = []Contender{
	{Key: "kube-proxy-nftables-program", Name: "kube-proxy nftables, NFTablesNetlink off", Mode: "nftables", Peer: oursNative, Off: "NFTablesNetlink", Most: 10_000},
	{Key: oursIPVS, Name: "ours, IPVS", Ours: true, Mode: "ipvs"},
	{Key: theirsIPVS, Name: "kube-proxy IPVS", Mode: "ipvs", Peer: oursIPVS},
}

// Keys lists how Contenders are called in flags.
func Keys() []string { return keysOf(Contenders) }

func keysOf(contenders []Contender) (keys []string) {
	for _, c := range contenders {
		keys = append(keys, c.Key)
	}
	return keys
}

// pick returns the contenders with these keys, in the order of Contenders.
func pick(keys []string) (picked []Contender, err error) {
	all := slices.Concat(Contenders, onRequest)
	for _, key := range keys {
		if !slices.ContainsFunc(all, func(c Contender) bool { return c.Key == key }) {
			return nil, fmt.Errorf("there is no proxy %q; say some of %s", key, strings.Join(keysOf(all), ", "))
		}
	}
	for _, c := range all {
		if slices.Contains(keys, c.Key) {
			picked = append(picked, c)
		}
	}
	return picked, nil
}

// metric is the full name of a metric that both have.
func (c Contender) metric(name string) string {
	if c.Ours {
		return "clusterip_proxyagent_" + name
	}
	return "kubeproxy_" + name
}

// Options say what to measure.
type Options struct {
	// Sizes are numbers of Services with three endpoints each; SizesV6 the same in the other family.
	Sizes, SizesV6 []int
	// Mixed and MixedV6: with two ServiceCIDRs, load balancers, external IPs and node ports.
	Mixed, MixedV6 []int
	// Endpoints is those of a cluster with a single Service; 0 leaves this out.
	Endpoints int
	// Proxies are Keys of Contenders.
	Proxies []string

	// Timeout bounds a start. A proxy that needs longer is left out of everything else.
	Timeout time.Duration
	// Changes is how many changes to time. Beyond ChangesLimit only three are made.
	Changes      int
	ChangesLimit time.Duration
	// Rounds of Count connections to Services and Count to other addresses through each proxy in turn.
	Rounds, Count int
	// Quiet is how long to watch the proxies do nothing; 0 leaves this out.
	Quiet time.Duration
	// Busy is how long to time connections while a proxy follows changes, with BusyAt Services.
	Busy   time.Duration
	BusyAt int
	// Clients of a Service with affinity, in the smallest cluster.
	Clients int
	// Footprint looks at what the proxies have in the kernel.
	Footprint bool

	// Requests are answered on one connection in each of the RateRounds, and a fifth each on its own.
	// Many short rounds tell more than few long ones: the machine's pace moves meanwhile.
	Requests, RateRounds int
	// Tracked is how many connections to make to see how many of them the kernel tracks.
	Tracked int

	// The rest is for an Extreme. Sticky gives all Services session affinity.
	Sticky bool
	// Restart kills a proxy that is ready, and starts it again.
	Restart bool
	// Scale is what Changes lead to and back from, unless it is Open: then they change ports.
	Scale population.State
	// Compare has ours with nftables look for what another program changed.
	Compare bool
	// Leave has an endpoint go to which all Clients come.
	Leave bool
	// Scaling has Services go to one endpoint and back while Busy, with connections without a pause.
	Scaling bool
}

// Full is what the documentation shows.
func Full() Options {
	return Options{
		Sizes: []int{1_000, 10_000, 30_000}, SizesV6: []int{1_000}, Mixed: []int{10_000, 30_000}, MixedV6: []int{1_000}, Endpoints: 1_000, Proxies: Keys(),
		Timeout: 200 * time.Second, Changes: 7, ChangesLimit: 30 * time.Second,
		Rounds: 20, Count: 300, Quiet: 20 * time.Second, Busy: 6 * time.Second, BusyAt: 10_000, Clients: 1_000, Footprint: true,
	}
}

// Quick is for a look at whether the benchmark itself works.
func Quick() Options {
	return Options{
		Sizes: []int{1_000}, Mixed: []int{1_000}, Endpoints: 100, Proxies: Keys(),
		Timeout: 30 * time.Second, Changes: 3, ChangesLimit: 10 * time.Second,
		Rounds: 4, Count: 200, Quiet: 4 * time.Second, Busy: 2 * time.Second, BusyAt: 1_000, Clients: 300, Footprint: true,
	}
}

// endpoints is how many each of many Services has.
const endpoints = 3

// plan is of a control plane that grows.
type plan struct {
	family    model.Family
	endpoints int
	sizes     []int
	sticky    bool // whether affinity is looked at, in the first size
	mixed     bool
}

// plans are small ones first: what is wrong shows early.
func (o Options) plans() (all []plan) {
	if o.Endpoints > 0 {
		all = append(all, plan{family: model.IPv4, endpoints: o.Endpoints, sizes: []int{1}})
	}
	for _, p := range []plan{
		{family: model.IPv6, sizes: o.SizesV6}, {family: model.IPv6, sizes: o.MixedV6, mixed: true},
		{family: model.IPv4, sizes: o.Sizes, sticky: o.Clients > 0}, {family: model.IPv4, sizes: o.Mixed, mixed: true},
	} {
		if len(p.sizes) > 0 {
			p.endpoints = endpoints
			all = append(all, p)
		}
	}
	return all
}
