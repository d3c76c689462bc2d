package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// limit is how long a slice may take: one that takes longer is to be divided.
const limit = 80 * time.Minute

// slice is a part of `make soak` with a verdict of its own.
type slice struct {
	name string
	// proves is what it is there for, as the page says it.
	proves string
	// command is run from the root of the repository, with env.
	command []string
	env     []string
	// reports: the command leaves Ginkgo's reports, and at least one spec has to pass.
	reports bool
	// packages are those whose specs the command runs, by folder, those alone whose texts match
	// focus.
	packages []string
	focus    string
	// skip leaves out specs whose texts match it, if it is not empty.
	skip string
	// kubernetes are minor releases, beside the usual ones, whose kube-apiserver the command needs.
	kubernetes []string
}

// specs is a slice of the specs with the labels long and soak in some packages.
func specs(name, proves string, packages ...string) slice {
	command := []string{"hack/test.sh", "soak"}
	for _, p := range packages {
		command = append(command, "./"+p)
	}
	return slice{name: name, proves: proves, command: command, reports: true, packages: packages}
}

// only leaves those specs whose texts match a regular expression.
func (s slice) only(focus string) slice {
	s.focus = focus
	return s.with("FOCUS=" + focus)
}

// without leaves out the specs whose texts match a regular expression.
func (s slice) without(skip string) slice {
	s.skip = skip
	return s.with("SKIP=" + skip)
}

// on has the kube-apiservers of minor releases built before the slice's time begins.
func (s slice) on(minors ...string) slice {
	s.kubernetes = minors
	return s
}

// with adds variables to the environment of the slice's command.
func (s slice) with(env ...string) slice {
	s.env = append(s.env, env...)
	return s
}

// hour is a slice of test/integration/soak in which something random goes on for an hour.
func hour(name, proves, focus string) slice {
	return specs(name, proves, "test/integration/soak").only(focus).with("FLAGS=-soak.duration=1h")
}

// signetwork is a slice of Kubernetes' own specs beside one proxy, by the text of its entry.
func signetwork(name, entry string) slice {
	return specs("sig-network-"+name, "Kubernetes' [sig-network] specs "+entry, "test/e2e/signetwork").only(entry + "$")
}

// release is a slice of what has to hold on a minor release of Kubernetes.
func release(minor string) slice {
	return slice{
		name: "kubernetes-" + minor, proves: "the suites of docs/versions.md on Kubernetes " + minor,
		command: []string{"hack/test.sh", "version"}, env: []string{"CLUSTERIP_KUBERNETES=" + minor}, reports: true, kubernetes: []string{minor},
	}
}

// Parts of the texts of specs that have slices of their own.
const million, emulated = "none of a million connections", "Debian's kernel"

// all are the slices, in the order in which `make soak` runs them.
func all() []slice {
	s := []slice{
		{name: "seeds", proves: "the packages without specs, with all their seeds and the race detector", command: []string{"hack/test.sh", "seeds"}},
		specs("controllers", "the manager's controllers", "controllers", "controllers/enforcement", "controllers/migration/etcdstore"),
		specs("behaviour", "outages, restores, growth and leaders", "test/integration/behaviour"),
		specs("defects", "what Kubernetes gets wrong, mended", "test/integration/defects").on("1.33"),
		specs("steering", "policies, webhooks, tenants", "test/integration/steering", "test/integration/admission", "test/integration/policyapi", "test/integration/tenants"),
		specs("renumber", "renumbering, killed on its way", "test/integration/renumber"),
		specs("plugin", "the plugin and its console, with thousands of objects", "test/integration/plugin", "test/integration/console"),
		specs("guides", "what guides and error messages say", "test/integration/guides", "test/integration/badinput"),
		specs("installing", "manifests, Jobs, leaving", "test/integration/agentdeployment", "test/integration/chart", "test/integration/deployment", "test/integration/leaving"),
		specs("releases", "what a release contains, made twice", "test/integration/release"),
		specs("migration", "migration off the bitmap, killed on its way", "test/integration/migration", "test/integration/bitmap").on("1.33"),
		specs("upgrade-way", "a cluster on its way through the minor releases", "test/integration/upgrade").only("on its way through the minors|on IPAddresses alone").on("1.33", "1.34", "1.35", "1.36"),
		specs("upgrade-unmigrated", "a cluster that goes that way without a migration", "test/integration/upgrade").only("without a migration").on("1.33", "1.34"),
		specs("upgrade-migration", "clusters that leave the bitmap, and go back", "test/integration/upgrade").only("leaves the bitmap|has left the bitmap|in which Services come and go|goes back|does not serve IPAddresses").on("1.33", "1.34"),
		specs("upgrade-from-release", "the upgrade from the last release to this commit: the operator under load, replicas and agents of both, and pods by the commands of the guide",
			"test/integration/soak", "test/e2e/cleanup", "test/e2e/nodes").only("the version before, under load|two neighbouring versions|An agent of the version before|A cluster with the version before"),
		specs("full-range", "a leader that dies in a full range", "test/integration/soak").only("Thirty-two clients"),
		hour("chaos-webhook", "an hour of faults, with policies that the webhook keeps", "whatever goes wrong with policies that the webhook keeps"),
		hour("chaos-apiserver", "an hour of faults, with policies that the API server enforces", "whatever goes wrong with policies that the API server enforces"),
		hour("churn", "an hour of churn: memory and queues stay as they are, nothing drifts", "An hour of churn"),
		hour("hostile-tenants", "an hour of hostile tenants of the operator", "A hostile hour"),
		specs("hostile-nodes", "hostile parties beside the agent", "test/e2e/hostile"),
		specs("agent-robustness", "the agent under load and faults", "test/e2e/robustness").without(million),
		specs("agent-million", "a million connections of pods that are translated at connect()", "test/e2e/robustness").only(million),
		specs("agent", "the agent and bad input, its clean-up, and how it follows the API server", "test/e2e/badinput", "test/e2e/cleanup", "test/e2e/allocations", "test/integration/agentwatch"),
		specs("flows", "the flow matrix with iptables-legacy, and with kube-proxy", "test/e2e/flows"),
		specs("flows-socketlb", "the flow matrix with connections of pods translated at connect()", "test/e2e/flows").
			with("CLUSTERIP_SOCKETLB=pods", "FILTER=!soak && !/ipvs/"),
		specs("e2e-renumber", "renumbering under connections, with each proxy", "test/e2e/renumber"),
		specs("nodes", "operator, agent and migration in pods, on nodes with containerd and kubelet", "test/e2e/nodes").without(emulated),
		specs("nodes-emulated", "the same in an emulated machine with another kernel", "test/e2e/nodes").only(emulated),
		signetwork("agent-iptables-nft", "with the agent and iptables-nft"),
		signetwork("agent-iptables-legacy", "with the agent and iptables-legacy"),
		signetwork("agent-nftables", "with the agent and nftables"),
		signetwork("agent-nftables-socketlb", "with the agent, nftables and socketLB"),
		signetwork("kube-proxy-iptables", "with kube-proxy in its mode iptables"),
		signetwork("kube-proxy-nftables", "with kube-proxy in its mode nftables"),
		{name: "ipvs", proves: "the agent's mode ipvs, in an emulated machine", command: []string{"hack/ipvs.sh"}},
		{name: "ipvs-kube-proxy", proves: "the flow matrix with kube-proxy's mode ipvs, in an emulated machine", command: []string{"hack/ipvs.sh", "kube-proxy"}},
		{name: "fuzz", proves: "reviews of admission, fuzzed for ten minutes", command: []string{"hack/fuzz.sh", "FuzzReview"}, env: []string{"FUZZTIME=10m"}},
	}
	for _, minor := range []string{"1.32", "1.33", "1.34", "1.35", "1.36", "1.37"} {
		s = append(s, release(minor))
	}
	return s
}

// chosen are the slices that some arguments name, all without any. A name may end in * for those
// that begin so.
func chosen(names []string) ([]slice, error) {
	if len(names) == 0 {
		return all(), nil
	}
	var found []slice
	for _, name := range names {
		before := len(found)
		prefix, many := strings.CutSuffix(name, "*")
		for _, s := range all() {
			if s.name == name || many && strings.HasPrefix(s.name, prefix) {
				found = append(found, s)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("there is no slice %q; `go run ./test/soak list` lists them", name)
		}
	}
	return found, nil
}

// runs reports whether a slice runs a spec of a folder that has a label which lasts, by its text.
func (s slice) runs(folder, text string) bool {
	skipped := s.skip != "" && regexp.MustCompile(s.skip).MatchString(text)
	return slices.Contains(s.packages, folder) && regexp.MustCompile(s.focus).MatchString(text) && !skipped
}
