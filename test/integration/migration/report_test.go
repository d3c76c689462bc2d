package migration_test

import (
	"cmp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// report is what check, verify and plan print, as scripts read it. Names are written out here and not taken from the
// command's code, so that one which changes by mistake is noticed; a field that is not here fails the spec.
type report struct {
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
	Findings []finding `json:"findings"`
	Steps    []step    `json:"steps"`
}

type finding struct {
	Kind    string   `json:"kind"`
	Address string   `json:"address"`
	Objects []string `json:"objects"`
	Detail  string   `json:"detail"`
	Means   string   `json:"means"`
	Plan    string   `json:"plan"`
	Blocks  bool     `json:"blocks"`
}

type step struct {
	Do              string   `json:"do"`
	Address         string   `json:"address"`
	Service         string   `json:"service"`
	UID             string   `json:"uid"`
	ResourceVersion string   `json:"resourceVersion"`
	CIDRs           []string `json:"cidrs"`
	Key             string   `json:"key"`
}

// reportOf decodes JSON or YAML and holds what every report promises: each finding explains itself, and is counted.
func reportOf(text string) report {
	GinkgoHelper()
	var r report
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
func (f finding) String() string { return strings.TrimSpace(f.Kind + " " + f.Address) }

// words are the findings of some kinds, of all if none is given, in order.
func (r report) words(kinds ...string) []string {
	all := []string{}
	for _, f := range r.of(kinds...) {
		all = append(all, f.String())
	}
	slices.Sort(all)
	return all
}

// of are the findings of some kinds, of all if none is given.
func (r report) of(kinds ...string) (some []finding) {
	for _, f := range r.Findings {
		if len(kinds) == 0 || slices.Contains(kinds, f.Kind) {
			some = append(some, f)
		}
	}
	return some
}

// one is the only finding of a kind.
func (r report) one(kind string) finding {
	GinkgoHelper()
	some := r.of(kind)
	Expect(some).To(HaveLen(1), "%s of %v", kind, r.words())
	return some[0]
}

// todo are the steps in a word and an address, in order.
func (r report) todo() []string {
	all := []string{}
	for _, s := range r.Steps {
		all = append(all, s.Do+" "+cmp.Or(s.Address, strings.Join(s.CIDRs, ",")))
	}
	slices.Sort(all)
	return all
}
