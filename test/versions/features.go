package main

import (
	"path"
	"slices"
	"strings"
)

// feature is a row of the table: what the specs of some packages, or some of their files, prove.
type feature struct {
	name    string
	sources []source
	// on are the minor releases that must prove it. On other releases a cell still counts specs.
	on []string
	// notes say in a word what specs prove on a release where that is not what the row says.
	notes map[string]string
}

// source is a package, by folder from the module's root, or some files, without _test.go.
type source struct {
	folder string
	files  []string
}

func in(folder string, files ...string) source { return source{folder, files} }

const (
	behaviour = "test/integration/behaviour"
	defects   = "test/integration/defects"
	steering  = "test/integration/steering"
	admission = "test/integration/admission"
)

var (
	native = []string{"1.33", "1.34", "1.35", "1.36", "1.37"} // they allocate from ServiceCIDRs
	every  = append([]string{"1.32"}, native...)
	ends   = []string{"1.33", "1.37"}
)

var features = []feature{
	{name: "ServiceCIDRs: growth, a second family, forecast, overlaps, guarded deletion", on: native, sources: []source{
		in(behaviour, "growth", "finalizer", "recording"), in(defects, "deletion", "suite", "ranges", "warnings"),
	}},
	{name: "Repair: drift, outages, several API servers, leader election", on: native, sources: []source{
		in(behaviour, "race", "outage", "leader", "misspelt", "refused", "restore", "history", "linearizable", "precondition"), in(defects, "repair", "update", "drift", "dualwrite"),
	}},
	{name: "ServiceCIDRPolicy: what the API server takes, refuses and shows", on: every, sources: []source{in("test/integration/policyapi")}},
	{name: "Policies: who gets which addresses", on: native, sources: []source{
		in(steering, "tenants", "company", "conversion", "dryrun"), in(admission, "policy"),
	}},
	{name: "Growth by policy", on: native, sources: []source{in(steering, "growth")}},
	{name: "Reservations", on: native, sources: []source{in(steering, "reservation")}},
	{name: "Cool-down", on: native, sources: []source{in(steering, "cooldown")}},
	{name: "Cordoned ranges, and ranges by request only", on: native, sources: []source{in(steering, "allocation")}},
	{name: "Additional addresses", on: native, sources: []source{in(admission, "additional")}},
	{name: "Webhooks: guards, certificates, outages, quotas", on: native, sources: []source{in(admission, "guard", "certificates", "outage", "quota")}},
	{name: "`enforcement: APIServer`, by a ValidatingAdmissionPolicy", on: native, sources: []source{in("controllers/enforcement")}},
	{name: "Leaving", on: native, sources: []source{in("test/integration/leaving")}},
	{name: "`kubectl clusterip`: why, status, check, repair", on: every, sources: []source{in("test/integration/plugin")}},
	{name: "`kubectl clusterip dual-stack`", on: native, sources: []source{in("test/integration/dualstack")}},
	{name: "`kubectl clusterip renumber`", on: every, sources: []source{in("test/integration/renumber")}, notes: map[string]string{"1.32": "refused"}},
	{name: "`kubectl clusterip migrate`, from 1.32 to 1.37 and back", on: []string{"1.32"}, sources: []source{
		in("test/integration/bitmap"), in("test/integration/migration"), in("test/integration/upgrade"),
	}},
	{name: "Node agent: follows the API server", on: every, sources: []source{in("test/integration/agentwatch")}},
	{name: "Node agent: the flow matrix, by packets", on: ends, sources: []source{in("test/e2e/flows")}},
	{name: "Node agent: IPAddresses, by packets", on: ends, sources: []source{in("test/e2e/allocations")}},
}

// suites are the packages whose specs have to run on a minor release.
func suites(minor string) (packages []string) {
	for _, f := range features {
		for _, s := range f.sources {
			if slices.Contains(f.on, minor) {
				packages = append(packages, "./"+s.folder)
			}
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// has reports whether a file's specs, by path from the module's root, belong to the feature.
func (f feature) has(file string) bool {
	return slices.ContainsFunc(f.sources, func(s source) bool { return s.has(file) })
}

func (s source) has(file string) bool {
	folder, name := path.Split(file)
	noun := strings.TrimSuffix(name, "_test.go")
	return folder == s.folder+"/" && (len(s.files) == 0 || slices.Contains(s.files, noun))
}

// count sums what there is of each file of a source.
func (s source) count(byFile map[string]int) (sum int) {
	for file, n := range byFile {
		if s.has(file) {
			sum += n
		}
	}
	return sum
}
