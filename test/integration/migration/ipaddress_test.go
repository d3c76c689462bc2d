package migration_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
)

// Kubernetes 1.32 serves IPAddresses as plain storage: a client that may write them may write
// nonsense. A migrated cluster gets one lie of each kind.
var _ = Describe("An IPAddress that tells a lie", Ordered, func() {
	const (
		stranger = "somebody.example.com"
		orphan   = "10.96.0.201"
		reserved = "10.96.0.202" // another program's reservation, which is no lie
	)
	var (
		w                                               *environment
		missing, parent, labels, foreign, outside, none string // addresses
		bitmaps                                         map[string]storage.Value
		uids                                            map[string]string
	)

	// address creates a Service and returns the address that it was given in a family.
	address := func(ctx context.Context, name string, family corev1.IPFamily) string {
		GinkgoHelper()
		return w.CreateService(ctx, name, framework.WithFamilies(family)).Spec.ClusterIP
	}
	replace := func(ctx context.Context, ip *networkingv1.IPAddress) {
		GinkgoHelper()
		w.DeleteIPAddress(ctx, ip.Name)
		w.CreateIPAddress(ctx, ip)
	}

	BeforeAll(func(ctx SpecContext) {
		w = newEnvironment(ctx, old, 40)
		missing, parent = address(ctx, "missing", corev1.IPv4Protocol), address(ctx, "parent", corev1.IPv6Protocol)
		labels, foreign = address(ctx, "labels", corev1.IPv6Protocol), address(ctx, "foreign", corev1.IPv4Protocol)
		outside, none = address(ctx, "outside", corev1.IPv4Protocol), address(ctx, "none", corev1.IPv4Protocol)
		w.migrated(ctx)
		w.check(ctx, clean)

		w.DeleteIPAddress(ctx, missing)
		replace(ctx, framework.NewIPAddress(parent, cluster.Namespace, "labels"))
		replace(ctx, framework.NewIPAddress(labels, cluster.Namespace, "labels", framework.WithIPLabel(networkingv1.LabelIPAddressFamily, "IPv4")))
		replace(ctx, framework.NewIPAddress(foreign, cluster.Namespace, "foreign", framework.ManagedBy(stranger)))
		w.CreateIPAddress(ctx, framework.NewIPAddress(orphan, cluster.Namespace, "never"))
		w.CreateIPAddress(ctx, framework.NewIPAddress(reserved, cluster.Namespace, "never", framework.ManagedBy(stranger)))
		for name, lie := range map[string]string{"outside": "10.99.0.1", "none": "10.96.0.300"} {
			w.rewrite(ctx, name, func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = lie, []string{lie} })
		}
		bitmaps = map[string]storage.Value{primaryKey: w.etcd.Get(ctx, primaryKey), secondaryKey: w.etcd.Get(ctx, secondaryKey)}
		uids = map[string]string{}
		for _, ip := range w.IPAddresses(ctx) {
			uids[ip.Name] = string(ip.UID)
		}
	})

	It("is found, and explained", func(ctx SpecContext) {
		w.untouched(ctx, func() {
			r := w.check(ctx, found)
			Expect(r.Words()).To(ConsistOf(
				"IPAddressMissing "+missing, "IPAddressWrongParent "+parent, "IPAddressWrongLabels "+labels,
				"IPAddressForeign "+foreign, "IPAddressOrphan "+orphan,
				// Two Services were given other addresses behind the API server's back: no Service has these.
				"OutOfRange 10.99.0.1", "InvalidClusterIP",
				"IPAddressOrphan "+outside, "LeakedBit "+outside, "IPAddressOrphan "+none, "LeakedBit "+none,
			))
			Expect(r.One("IPAddressMissing").Objects).To(ContainElement("Service default/missing"))
			Expect(r.One("IPAddressWrongParent").Objects).To(ContainElements("Service default/parent", "IPAddress "+parent))
			Expect(r.One("IPAddressWrongParent").Detail).To(ContainSubstring("default/labels"), "whom it names instead")
			Expect(r.One("IPAddressWrongLabels").Objects).To(ContainElement("IPAddress " + labels))
			Expect(r.One("IPAddressForeign").Detail).To(ContainSubstring(stranger))
			Expect(r.One("OutOfRange").Objects).To(ContainElement("Service default/outside"))
			Expect(r.One("InvalidClusterIP").Objects).To(ContainElement("Service default/none"))
			Expect(r.One("InvalidClusterIP").Detail).To(ContainSubstring("10.96.0.300"))
		})
	})

	It("is found by verify too, but for what does not matter to the new allocator", func(ctx SpecContext) {
		w.untouched(ctx, func() {
			r := migrate.Decode(with(found, w.migrate(ctx, "verify", "-o", "json")).Stdout)
			Expect(r.Words()).To(ContainElements("IPAddressMissing "+missing, "IPAddressWrongParent "+parent,
				"IPAddressWrongLabels "+labels, "OutOfRange 10.99.0.1", "InvalidClusterIP"))
		}, conditionKey)
	})

	It("is told the same in JSON, in YAML and in the table", func(ctx SpecContext) {
		asJSON := w.check(ctx, found)
		answers := w.together(ctx, []string{"check", "-o", "yaml"}, []string{"check"})
		asYAML := migrate.Decode(with(found, answers[0]).Stdout)
		asJSON.Revision = asYAML.Revision // the API server's leases go on
		Expect(asYAML).To(Equal(asJSON))
		table := with(found, answers[1]).Stdout
		for _, f := range asJSON.Findings {
			Expect(table).To(And(ContainSubstring(f.Kind), ContainSubstring(f.Address)))
		}
		Expect(table).NotTo(ContainSubstring(reserved))
	})

	It("has its remedy in the plan", func(ctx SpecContext) {
		w.untouched(ctx, func() {
			answer := w.migrate(ctx, "plan", "-o", "json")
			r := migrate.Decode(answer.Stdout)
			Expect(r.Kind).To(Equal("MigrationPlan"))
			Expect(r.Todo()).To(ConsistOf("CreateIPAddress "+missing, "ReplaceIPAddress "+parent, "RelabelIPAddress "+labels,
				"DeleteIPAddress "+orphan, "DeleteIPAddress "+outside, "DeleteIPAddress "+none))
			for _, s := range r.Steps {
				if s.Do != "CreateIPAddress" {
					Expect(s.UID).To(Equal(uids[s.Address]), "%+v", s)
				}
			}
		})
	})

	It("is told on a dry run what would become of it, and nothing does", func(ctx SpecContext) {
		w.untouched(ctx, func() {
			answer := with(found, w.migrate(ctx, "run", "--dry-run"))
			for _, address := range []string{missing, parent, labels, orphan} {
				Expect(answer.Stdout + answer.Stderr).To(ContainSubstring(address))
			}
		})
	})

	It("is mended as far as it is ours", func(ctx SpecContext) {
		with(found, w.migrate(ctx, "run"))
		r := w.check(ctx, found)
		Expect(r.Words()).To(ConsistOf("IPAddressForeign "+foreign, "OutOfRange 10.99.0.1", "InvalidClusterIP",
			"LeakedBit "+outside, "LeakedBit "+none))
		Expect(w.Owner(ctx, missing)).To(Equal("default/missing"))
		Expect(w.Owner(ctx, parent)).To(Equal("default/parent"))
		Expect(w.Labels(ctx, labels)).To(Equal(framework.NewIPAddress(labels, "", "").Labels))
		Expect(string(w.IPAddress(ctx, labels).UID)).To(Equal(uids[labels]), "labels can be changed without replacing it")
		for _, gone := range []string{orphan, outside, none} {
			Expect(w.IPAddress(ctx, gone)).To(BeNil(), gone)
		}
		for _, theirs := range []string{foreign, reserved} {
			Expect(string(w.IPAddress(ctx, theirs).UID)).To(Equal(uids[theirs]))
			Expect(w.Labels(ctx, theirs)).To(HaveKeyWithValue(networkingv1.LabelManagedBy, stranger))
		}
		for key, before := range bitmaps {
			Expect(w.etcd.Get(ctx, key)).To(Equal(before), "nobody asked for the bitmap to be repaired")
		}
	})

	It("is mended once", func(ctx SpecContext) {
		w.untouched(ctx, func() { with(found, w.migrate(ctx, "run")) })
	})

	// Parent names in IPAddresses are free text to the API server, and terminals obey what they get.
	It("cannot write to the terminal", func(ctx SpecContext) {
		evil := "x\x1b[2J\x1b]0;owned\x07\r\nLeakedBit 10.96.0.1"
		w.CreateIPAddress(ctx, framework.NewIPAddress(orphan, cluster.Namespace, evil))
		for _, answer := range w.together(ctx, []string{"check"}, []string{"plan"}, []string{"verify"}, []string{"run", "--dry-run"}) {
			with(found, answer)
			Expect(answer.Stdout + answer.Stderr).To(ContainSubstring(orphan))
			Expect(answer.Stdout + answer.Stderr).NotTo(MatchRegexp(`[\x1b\x07\r]`))
			Expect(slices.ContainsFunc(slices.Collect(strings.Lines(answer.Stdout)), func(line string) bool {
				return strings.HasPrefix(line, "LeakedBit 10.96.0.1")
			})).To(BeFalse(), "a line was forged:\n%s", answer.Stdout)
		}
		with(found, w.migrate(ctx, "run"))
		Expect(w.IPAddress(ctx, orphan)).To(BeNil())
	})
})
