package admission_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// manyReservations writes n reservations of one address each.
func manyReservations(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{name: r%d, address: 10.96.%d.%d}, ", i, 64+i/256, i%256)
	}
	return b.String()
}

// mistakes are specs of policies that make no sense, whatever is in the cluster. Each has the words that its refusal must have: the
// field, and what was wrong with it. Numbers may be written as 1024 or as 1,024.
var mistakes = []struct {
	what, spec string
	words      []string
}{
	// Selectors. The schema takes any text for an operator, a key and a value.
	{"an operator that does not exist", `{namespaceSelector: {matchExpressions: [{key: tenant, operator: Is, values: [a]}]}}`,
		[]string{"namespaceSelector", "Is"}},
	{"an operator in a Service selector", `{serviceSelector: {matchExpressions: [{key: app, operator: "==", values: [a]}]}}`,
		[]string{"serviceSelector", "=="}},
	{"In without values", `{namespaceSelector: {matchExpressions: [{key: tenant, operator: In}]}}`, []string{"namespaceSelector", "values"}},
	{"Exists with values", `{serviceSelector: {matchExpressions: [{key: tenant, operator: Exists, values: [a]}]}}`,
		[]string{"serviceSelector", "values"}},
	{"a key that no label can have", `{namespaceSelector: {matchLabels: {"a b": c}}}`, []string{"namespaceSelector", "a b"}},
	{"a value that no label can have", `{serviceSelector: {matchLabels: {app: "läuft, oder?"}}}`, []string{"serviceSelector", "läuft"}},
	{"a value of 64 characters", `{serviceSelector: {matchLabels: {app: ` + strings.Repeat("x", 64) + `}}}`, []string{"serviceSelector", "63"}},
	{"a selector of ServiceCIDRs", `{serviceCIDRSelector: {matchExpressions: [{key: "", operator: Exists}]}}`, []string{"serviceCIDRSelector"}},
	{"names and a selector", `{serviceCIDRs: [a], serviceCIDRSelector: {}}`, []string{"serviceCIDRs", "serviceCIDRSelector"}},
	// Names of ServiceCIDRs that cannot exist would be waited for in vain.
	{"a name that no ServiceCIDR can have", `{serviceCIDRs: ["Tenant A"]}`, []string{"serviceCIDRs"}},
	{"a name that is empty", `{serviceCIDRs: [""]}`, []string{"serviceCIDRs"}},
	{"a name of 300 characters", `{serviceCIDRs: [` + strings.Repeat("x", 300) + `]}`, []string{"serviceCIDRs"}},
	{"a range in the place of a name", `{serviceCIDRs: [10.96.0.0/16]}`, []string{"serviceCIDRs"}},
	{"a name twice", `{serviceCIDRs: [a, a]}`, []string{"serviceCIDRs"}},
	// Values.
	{"something else to do when full", `{onFull: Panic}`, []string{"onFull", "Panic", "Fail", "Fallback"}},
	{"a priority in words", `{priority: high}`, []string{"priority"}},
	{"a priority out of bounds", `{priority: 4294967296}`, []string{"priority"}},
	{"a cool-down in words", `{coolDown: soon}`, []string{"coolDown"}},
	{"a cool-down without a unit", `{coolDown: "30"}`, []string{"coolDown"}},
	{"a cool-down of a year", `{coolDown: 8760h}`, []string{"coolDown", "720h"}},
	{"a cool-down before the end", `{coolDown: -5s}`, []string{"coolDown"}},
	{"a field that does not exist", `{serviceCIDR: [a]}`, []string{"serviceCIDR"}},
	// Reservations.
	{"a reservation without a name", `{reservations: [{address: 10.96.0.10}]}`, []string{"reservations", "name"}},
	{"a reservation without an address", `{reservations: [{name: dns}]}`, []string{"reservations", "address"}},
	{"two reservations of one name", `{reservations: [{name: dns, address: 10.96.0.10}, {name: dns, address: 10.96.0.11}]}`,
		[]string{"reservations", "dns"}},
	{"an address that is none", `{reservations: [{name: dns, address: 10.96.0.300}]}`, []string{"reservations", "10.96.0.300"}},
	{"a host name", `{reservations: [{name: dns, address: dns.example.com}]}`, []string{"reservations", "dns.example.com"}},
	{"leading zeros, which are octal for some", `{reservations: [{name: dns, address: 010.096.000.010}]}`, []string{"reservations"}},
	{"an IPv4-mapped address", `{reservations: [{name: dns, address: "::ffff:10.96.0.10"}]}`, []string{"reservations", "::ffff:10.96.0.10"}},
	{"an IPv4-mapped CIDR", `{reservations: [{name: dns, address: "::ffff:10.96.0.0/124"}]}`, []string{"reservations"}},
	{"a zone", `{reservations: [{name: dns, address: "fe80::1%eth0"}]}`, []string{"reservations"}},
	{"a port", `{reservations: [{name: dns, address: "10.96.0.10:53"}]}`, []string{"reservations"}},
	{"a range with one end", `{reservations: [{name: dns, address: 10.96.0.10-}]}`, []string{"reservations"}},
	{"a range that runs backwards", `{reservations: [{name: dns, address: 10.96.0.19-10.96.0.10}]}`, []string{"reservations"}},
	{"a range from one family into the other", `{reservations: [{name: dns, address: "10.96.0.10-fd00::10"}]}`, []string{"reservations"}},
	{"a prefix that is too long", `{reservations: [{name: dns, address: 10.96.0.0/33}]}`, []string{"reservations", "10.96.0.0/33"}},
	{"a CIDR with host bits", `{reservations: [{name: dns, address: 10.96.0.17/28}]}`, []string{"reservations", "10.96.0.17/28"}},
	{"an annotation's worth of shell", `{reservations: [{name: dns, address: "$(reboot)\n; rm -rf /"}]}`, []string{"reservations"}},
	{"an address and a range that has it", `{reservations: [{name: a, address: 10.96.0.0/28}, {name: b, address: 10.96.0.10}]}`,
		[]string{"reservations", "overlap", "a", "b"}},
	{"ranges that overlap, IPv6", `{reservations: [{name: a, address: "fd00::10-fd00::20"}, {name: b, address: "fd00::20-fd00::30"}]}`,
		[]string{"reservations", "overlap", "fd00::20"}},
	{"one CIDR of 2,048 addresses", `{reservations: [{name: a, address: 10.96.0.0/21}]}`, []string{"reservations", "024"}},
	{"one CIDR of 2^64 addresses", `{reservations: [{name: a, address: "fd00::/64"}]}`, []string{"reservations", "024"}},
	{"the whole of IPv6", `{reservations: [{name: a, address: "::/0"}]}`, []string{"reservations", "024"}},
	{"1,025 addresses in both families",
		`{reservations: [{name: a, address: 10.96.0.0/23}, {name: b, address: "fd00::/119"}, {name: c, address: 10.97.0.1}]}`,
		[]string{"reservations", "024"}},
	{"1,025 reservations", `{reservations: [` + manyReservations(1025) + `]}`, []string{"reservations"}},
	{"for somebody without a namespace", `{reservations: [{name: a, address: 10.96.0.10, for: web}]}`, []string{"reservations", "for", "namespace"}},
	{"for a path", `{reservations: [{name: a, address: 10.96.0.10, for: a/b/c}]}`, []string{"reservations", "for"}},
	{"for a Service that cannot exist", `{reservations: [{name: a, address: 10.96.0.10, for: Default/Web}]}`, []string{"reservations", "for"}},
	{"for nobody in a namespace", `{reservations: [{name: a, address: 10.96.0.10, for: default/}]}`, []string{"reservations", "for"}},
	{"for a Service with a name of 300 characters",
		`{reservations: [{name: a, address: 10.96.0.10, for: default/` + strings.Repeat("x", 300) + `}]}`, []string{"reservations", "for"}},
}

// What no cluster could follow is not stored at all. Whether the schema refuses it or our webhook is nobody's business but the
// author's of the policy, who reads one message and knows what to write instead.
var _ = Describe("A policy that makes no sense", func() {
	refusedWith := func(ctx SpecContext, try func(spec string) error, spec string, words []string) {
		GinkgoHelper()
		err := try(spec)
		Expect(err).To(HaveOccurred(), "it was taken: %s", spec)
		Expect(apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
		for _, word := range words {
			Expect(err.Error()).To(ContainSubstring(word))
		}
		Expect(len(err.Error())).To(BeNumerically("<", 4000), "nobody reads that")
		Expect(err.Error()).NotTo(MatchRegexp(`panic|nil pointer|goroutine|0xc000`))
	}

	for _, mistake := range mistakes {
		It("is refused: "+mistake.what, func(ctx SpecContext) {
			DeferCleanup(func(ctx SpecContext) { user.DeletePolicy(ctx, "mistake") }) // if it is taken
			refusedWith(ctx, func(spec string) error { return user.TryPolicy(ctx, "mistake", spec) }, mistake.spec, mistake.words)
			Expect(user.Policies(ctx)).NotTo(ContainElement("mistake"))
		})
	}

	// A change is judged like a new policy.
	It("cannot be made of a good one", func(ctx SpecContext) {
		user.Policy(ctx, "good", `{serviceCIDRs: [nowhere], reservations: [{name: a, address: 10.96.200.1}]}`)
		for _, spec := range []string{
			`{namespaceSelector: {matchExpressions: [{key: tenant, operator: Is}]}}`,
			`{reservations: [{name: a, address: 10.96.200.0/28}, {name: b, address: 10.96.200.1}]}`,
			`{reservations: [{name: a, address: 10.96.200.0/21}]}`,
		} {
			refusedWith(ctx, func(spec string) error { return user.TryChange(ctx, "good", spec) }, spec, nil)
		}
		user.EventuallySays(ctx, "good", accepted, "True")
	})

	// Those that the schema sees, and when there are none of these, those that only we see.
	It("is told every mistake at once", func(ctx SpecContext) {
		err := user.TryPolicy(ctx, "mistake", `{coolDown: -5s, reservations: [{name: a, address: 10.96.0.19-10.96.0.10}, {name: b, address: b}]}`)
		Expect(err).To(MatchError(And(ContainSubstring("coolDown"), ContainSubstring("reservations[0]"), ContainSubstring("reservations[1]"))))
		err = user.TryPolicy(ctx, "mistake", `{
			namespaceSelector: {matchExpressions: [{key: tenant, operator: Is}]}, serviceSelector: {matchLabels: {"a b": c}},
			reservations: [{name: a, address: 10.96.0.0/30}, {name: b, address: 10.96.0.2}]}`)
		Expect(err).To(MatchError(And(ContainSubstring("namespaceSelector"), ContainSubstring("serviceSelector"), ContainSubstring("overlap"))))
	})

	// The bounds themselves are good. All of it is far from where other specs have Services.
	It("is not one that goes to the limit", func(ctx SpecContext) {
		user.Policy(ctx, "limit-in-one", `{reservations: [{name: a, address: 10.96.128.0/22}]}`)
		user.Policy(ctx, "limit-in-both",
			`{reservations: [{name: a, address: 10.96.160.0/23}, {name: b, address: "fd00:10:96::8000/119", for: default/nobody}]}`)
		user.Policy(ctx, "limit-of-numbers", `{priority: 2147483647, coolDown: 720h, onFull: Fallback, serviceCIDRs: [`+strings.Repeat("x", 253)+`]}`)
		for _, name := range []string{"limit-in-one", "limit-in-both", "limit-of-numbers"} {
			user.EventuallySays(ctx, name, accepted, "True")
		}
	})
})
