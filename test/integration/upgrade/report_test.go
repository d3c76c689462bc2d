package upgrade_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// report is what check, verify and plan print, as scripts read it. Names are written out here and not taken from the command's
// code, so that one which changes by mistake is noticed.
type report struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Cluster    string   `json:"cluster"`
	Revision   int64    `json:"revision"`
	Allocator  string   `json:"allocator"`
	Ranges     []string `json:"ranges"`
	Counts     struct {
		Services     int `json:"services"`
		ClusterIPs   int `json:"clusterIPs"`
		OK           int `json:"ok"`
		IPAddresses  int `json:"ipAddresses"`
		ServiceCIDRs int `json:"serviceCIDRs"`
		Findings     int `json:"findings"`
	} `json:"counts"`
	Bitmaps []struct {
		Key   string `json:"key"`
		Range string `json:"range"`
		Used  int    `json:"used"`
		Error string `json:"error"`
	} `json:"bitmaps"`
	Findings []struct {
		Kind    string `json:"kind"`
		Address string `json:"address"`
	} `json:"findings"`
	Steps []struct {
		Do string `json:"do"`
	} `json:"steps"`
}

func reportOf(text string) report {
	GinkgoHelper()
	var r report
	Expect(yaml.Unmarshal([]byte(text), &r)).To(Succeed(), shortened(text))
	Expect(r.APIVersion).To(Equal("migration.clusterip-operator.io/v1alpha1"), shortened(text))
	return r
}

// found counts the findings of each kind.
func (r report) found() map[string]int {
	kinds := map[string]int{}
	for _, finding := range r.Findings {
		kinds[finding.Kind]++
	}
	return kinds
}

// todo counts the steps of each kind.
func (r report) todo() map[string]int {
	kinds := map[string]int{}
	for _, step := range r.Steps {
		kinds[step.Do]++
	}
	return kinds
}

// used counts the bits of each range's bitmap.
func (r report) used() map[string]int {
	ranges := map[string]int{}
	for _, bitmap := range r.Bitmaps {
		ranges[bitmap.Range] = bitmap.Used
	}
	return ranges
}
