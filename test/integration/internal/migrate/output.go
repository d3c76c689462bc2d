package migrate

import (
	"cmp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// Output is what check, verify and plan print, as scripts read it. Names are written out here, so
// that one which changes by mistake in the command's code is noticed; unknown fields fail the spec.
type Output struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	Cluster   string   `json:"cluster"`
	Revision  int64    `json:"revision"`
	Allocator string   `json:"allocator"`
	Ranges    []string `json:"ranges"`

	Counts struct {
		Services     int `json:"services"`
		ClusterIPs   int `json:"clusterIPs"`
		OK           int `json:"ok"`
		IPAddresses  int `json:"ipAddresses"`
		ServiceCIDRs int `json:"serviceCIDRs"`
		Findings     int `json:"findings"`
	} `json:"counts"`
	Bitmaps []struct {
		Key         string `json:"key"`
		Range       string `json:"range"`
		Used        int    `json:"used"`
		ModRevision int64  `json:"modRevision"`
		Error       string `json:"error"`
	} `json:"bitmaps"`
	Findings []Finding `json:"findings"`
	Steps    []Step    `json:"steps"`
}

// Finding is one of its findings.
type Finding struct {
	Kind    string   `json:"kind"`
	Address string   `json:"address"`
	Objects []string `json:"objects"`
	Detail  string   `json:"detail"`
	Means   string   `json:"means"`
	Plan    string   `json:"plan"`
	Blocks  bool     `json:"blocks"`
}

// Step is one of its steps.
type Step struct {
	Do              string   `json:"do"`
	Address         string   `json:"address"`
	Service         string   `json:"service"`
	UID             string   `json:"uid"`
	ResourceVersion string   `json:"resourceVersion"`
	CIDRs           []string `json:"cidrs"`
	Key             string   `json:"key"`
}

// Decode decodes JSON or YAML and ensures that each finding explains itself, and is counted.
func Decode(text string) Output {
	GinkgoHelper()
	var r Output
	Expect(yaml.UnmarshalStrict([]byte(text), &r)).To(Succeed(), text)
	Expect(r.APIVersion).To(Equal("migration.clusterip-operator.io/v1alpha1"))
	Expect(r.Kind).To(BeElementOf("MigrationReport", "MigrationPlan"))
	Expect(r.Counts.Findings).To(Equal(len(r.Findings)))
	for _, f := range r.Findings {
		Expect(f.Means).NotTo(BeEmpty(), "what does %s mean?", f)
		Expect(f.Plan).NotTo(BeEmpty(), "what becomes of %s?", f)
	}
	return r
}

// String is a finding in a word and an address, as specs compare it.
func (f Finding) String() string { return strings.TrimSpace(f.Kind + " " + f.Address) }

// Words are the findings of some kinds, of all if none is given, in order.
func (r Output) Words(kinds ...string) []string {
	all := []string{}
	for _, f := range r.Of(kinds...) {
		all = append(all, f.String())
	}
	slices.Sort(all)
	return all
}

// Of are the findings of some kinds, of all if none is given.
func (r Output) Of(kinds ...string) (some []Finding) {
	for _, f := range r.Findings {
		if len(kinds) == 0 || slices.Contains(kinds, f.Kind) {
			some = append(some, f)
		}
	}
	return some
}

// One is the only finding of a kind.
func (r Output) One(kind string) Finding {
	GinkgoHelper()
	some := r.Of(kind)
	Expect(some).To(HaveLen(1), "%s of %v", kind, r.Words())
	return some[0]
}

// Todo are the steps in a word and an address, in order.
func (r Output) Todo() []string {
	all := []string{}
	for _, s := range r.Steps {
		all = append(all, s.Do+" "+cmp.Or(s.Address, strings.Join(s.CIDRs, ",")))
	}
	slices.Sort(all)
	return all
}

// Count is how often each first word occurs: how many findings or steps there are of each kind.
func Count(words []string) map[string]int {
	counts := map[string]int{}
	for _, word := range words {
		kind, _, _ := strings.Cut(word, " ")
		counts[kind]++
	}
	return counts
}

// Used counts the bits of each range's bitmap.
func (r Output) Used() map[string]int {
	ranges := map[string]int{}
	for _, bitmap := range r.Bitmaps {
		ranges[bitmap.Range] = bitmap.Used
	}
	return ranges
}
