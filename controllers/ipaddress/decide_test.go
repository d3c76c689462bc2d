package ipaddress

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/drift"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type services = []*corev1.Service

// held is a Service that holds the address, ago old.
func held(name string, ago time.Duration) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-ago))}}
}

// ip is a healthy IPAddress that names the Service, ago old.
func ip(service string, ago time.Duration) *networkingv1.IPAddress {
	o := upstream.NewIPAddress(netip.MustParseAddr("10.0.0.5"), types.NamespacedName{Namespace: "ns", Name: service})
	o.CreationTimestamp = metav1.NewTime(now.Add(-ago))
	if service == "" {
		o.Spec.ParentRef = nil
	}
	return o
}

func labelled(o *networkingv1.IPAddress, label, value string) *networkingv1.IPAddress {
	o.Labels[label] = value
	return o
}

func managed(o *networkingv1.IPAddress, manager string) *networkingv1.IPAddress {
	return labelled(o, networkingv1.LabelManagedBy, manager)
}

func deleting(o *networkingv1.IPAddress) *networkingv1.IPAddress {
	o.DeletionTimestamp = &metav1.Time{Time: now}
	return o
}

// formerly has renumbering hold an IPAddress.
func formerly(o *networkingv1.IPAddress) *networkingv1.IPAddress {
	o.Finalizers = []string{v1alpha1.FinalizerFormer}
	return o
}

// lists is a Service that is being renumbered and has had these addresses.
func lists(addresses string) *corev1.Service {
	s := held("a", time.Hour)
	s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, v1alpha1.ExternalNameRenumbering
	s.Annotations = map[string]string{v1alpha1.AnnotationFormerIPs: addresses, v1alpha1.AnnotationRenumbering: "{}"}
	return s
}

func TestDecide(t *testing.T) {
	external := held("a", time.Hour)
	external.Spec.Type = corev1.ServiceTypeExternalName
	a, b := held("a", time.Hour), held("b", time.Minute)

	for name, tc := range map[string]struct {
		in        inputs
		wantDrift drift.Type
		wantDo    action
		wantAgain time.Duration
		// wantLosers are told that the address is another Service's.
		wantLosers string
	}{
		"nothing there":                           {in: inputs{}},
		"the relation holds":                      {in: inputs{object: ip("a", 0), claims: services{a}, parent: a, offered: true}},
		"missing":                                 {in: inputs{claims: services{a}, offered: true}, wantDrift: drift.Missing, wantDo: create},
		"missing, two want it":                    {in: inputs{claims: services{a, b}, offered: true}, wantDrift: drift.Missing, wantDo: create, wantLosers: "b"},
		"missing outside of every range":          {in: inputs{claims: services{a}}},
		"restored, and still held":                {in: inputs{object: ip("a", 0), claims: services{a, b}, parent: a, offered: true, restored: true}, wantDrift: drift.Missing, wantDo: report, wantLosers: "b"},
		"restored, and then given up":             {in: inputs{object: ip("a", 0), parent: external, restored: true}, wantDo: remove},
		"restored, and then deleted":              {in: inputs{object: ip("gone", 0), restored: true}, wantDo: remove},
		"restored, and then given away":           {in: inputs{object: ip("a", 0), claims: services{b}, parent: external, restored: true}, wantDrift: drift.WrongParent, wantDo: replace},
		"bitmap mode: not written yet":            {in: inputs{claims: services{a}, offered: true, bitmap: true}, wantDo: create},
		"bitmap mode: released":                   {in: inputs{object: ip("a", 0), bitmap: true}, wantDo: remove},
		"bitmap mode: ExternalName now":           {in: inputs{object: ip("a", 0), parent: external, bitmap: true}, wantDo: remove},
		"bitmap mode: changed hands":              {in: inputs{object: ip("gone", 0), claims: services{a}, offered: true, bitmap: true}, wantDo: replace},
		"bitmap mode: of another's kind":          {in: inputs{object: managed(ip("gone", 0), ""), claims: services{a}, offered: true, bitmap: true}, wantDrift: drift.WrongParent, wantDo: replace},
		"orphan":                                  {in: inputs{object: ip("gone", 61*time.Second)}, wantDrift: drift.Orphan, wantDo: remove},
		"the Service may still come":              {in: inputs{object: ip("soon", 20*time.Second)}, wantAgain: 40 * time.Second},
		"parent does not hold it":                 {in: inputs{object: ip("a", time.Minute), parent: held("a", time.Hour)}, wantDrift: drift.WrongParent, wantDo: remove},
		"a creation being taken back":             {in: inputs{object: ip("a", 2*time.Second), parent: held("a", time.Hour)}, wantAgain: 3 * time.Second},
		"older than its parent: no grace":         {in: inputs{object: ip("a", 2*time.Second), parent: held("a", time.Second)}, wantDrift: drift.WrongParent, wantDo: remove},
		"ExternalName becoming ClusterIP":         {in: inputs{object: ip("a", 20*time.Second), parent: external}, wantAgain: 40 * time.Second},
		"ExternalName for good":                   {in: inputs{object: ip("a", time.Hour), parent: external}, wantDrift: drift.WrongParent, wantDo: remove},
		"parent is no Service":                    {in: inputs{object: ip("", 0)}, wantDrift: drift.WrongParent, wantDo: remove},
		"parent is no Service, held":              {in: inputs{object: ip("", 0), claims: services{a}}, wantDrift: drift.WrongParent, wantDo: replace},
		"names another Service":                   {in: inputs{object: ip("b", 0), claims: services{a}, parent: held("b", 0)}, wantDrift: drift.WrongParent, wantDo: replace},
		"family label lost":                       {in: inputs{object: labelled(ip("a", 0), networkingv1.LabelIPAddressFamily, ""), claims: services{a}}, wantDrift: drift.WrongLabels, wantDo: relabel},
		"manager label lost":                      {in: inputs{object: managed(ip("a", 0), ""), claims: services{a}}, wantDrift: drift.WrongLabels, wantDo: relabel},
		"manager label replaced":                  {in: inputs{object: managed(ip("a", 0), "x"), claims: services{a}}, wantDrift: drift.WrongLabels, wantDo: relabel},
		"duplicate, the older is named":           {in: inputs{object: ip("a", 0), claims: services{a, b}, parent: a}, wantDrift: drift.Duplicate, wantDo: leave, wantLosers: "b"},
		"duplicate, the younger is named":         {in: inputs{object: ip("b", 0), claims: services{a, b}, parent: b}, wantDrift: drift.Duplicate, wantDo: replace, wantLosers: "b"},
		"duplicate without labels":                {in: inputs{object: managed(ip("a", 0), ""), claims: services{a, b}}, wantDrift: drift.Duplicate, wantDo: relabel, wantLosers: "b"},
		"held for its Service, which lists it":    {in: inputs{object: formerly(ip("a", time.Hour)), parent: lists("10.0.0.5")}},
		"held, and listed by no Service":          {in: inputs{object: formerly(ip("a", time.Hour)), parent: lists("10.0.0.6")}, wantDrift: drift.WrongParent, wantDo: remove},
		"listed, and not held":                    {in: inputs{object: ip("a", time.Hour), parent: lists("10.0.0.5")}, wantDrift: drift.WrongParent, wantDo: remove},
		"held for a Service that is gone":         {in: inputs{object: formerly(ip("gone", time.Hour))}, wantDrift: drift.Orphan, wantDo: remove},
		"held for the Service that has it":        {in: inputs{object: formerly(ip("a", time.Hour)), claims: services{a}, parent: a}},
		"let go of, and held for its Service":     {in: inputs{object: deleting(formerly(ip("a", time.Hour))), parent: lists("10.0.0.5")}},
		"let go of, and held for nobody any more": {in: inputs{object: deleting(formerly(ip("gone", time.Hour)))}},
		"orphan held by a finalizer":              {in: inputs{object: deleting(ip("gone", time.Hour))}},
		"wrong and held by a finalizer":           {in: inputs{object: deleting(ip("b", 0)), claims: services{a}}},
		"misspelt, and missing":                   {in: inputs{misspelt: services{a}, offered: true}},
		"misspelt, and the API server has it":     {in: inputs{object: ip("a", time.Hour), misspelt: services{b, a}, parent: a, offered: true}},
		"misspelt, of an older owner, not held":   {in: inputs{object: ip("gone", time.Hour), misspelt: services{a}, offered: true}, wantDrift: drift.Orphan, wantDo: remove},
		"misspelt, and another one spells it":     {in: inputs{object: ip("a", time.Hour), claims: services{b, a}, parent: a, offered: true}, wantDrift: drift.Duplicate, wantDo: replace, wantLosers: "a"},
		"foreign, nobody's business":              {in: inputs{object: managed(ip("", time.Hour), "x")}},
		"foreign without label":                   {in: inputs{object: managed(ip("gone", time.Hour), "")}},
		"our reservation":                         {in: inputs{object: managed(ip("", time.Hour), v1alpha1.ManagedByOperator)}},
		"foreign on a held address":               {in: inputs{object: managed(ip("", 0), "x"), claims: services{a, b}}, wantDrift: drift.WrongParent, wantDo: leave, wantLosers: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.now, tc.in.address = now, netip.MustParseAddr("10.0.0.5")
			got := decide(tc.in)
			if got.drift != tc.wantDrift || got.do != tc.wantDo || got.again != tc.wantAgain {
				t.Errorf("got drift %q, action %q, again %v; want %q, %q, %v", got.drift, got.do, got.again, tc.wantDrift, tc.wantDo, tc.wantAgain)
			}
			var losers []string
			for _, l := range got.losers {
				losers = append(losers, l.Name)
			}
			if strings.Join(losers, ",") != tc.wantLosers {
				t.Errorf("told %v, want %q", losers, tc.wantLosers)
			}
			if got.drift != drift.None && got.confirm == 0 {
				t.Error("drift must last before it is believed")
			}
		})
	}
}

// While renumbering hands an address over, two Services have it, whichever of them the IPAddress
// names, and that is no drift.
func TestDecideLeavesAHandoverAlone(t *testing.T) {
	first, second, other := held("a", time.Hour), held("b", time.Second), held("b", time.Second)
	first.UID = "1"
	second.Annotations = map[string]string{v1alpha1.AnnotationSecondOf: "a/1"}
	other.Annotations = map[string]string{v1alpha1.AnnotationSecondOf: "a/2"}
	for _, names := range []string{"a", "b"} {
		for _, claims := range []services{{first, second}, {second, first}} {
			if d := decide(inputs{now: now, claims: claims, object: ip(names, 0), offered: true}); d.drift != "" || d.do != leave {
				t.Errorf("naming %s: %q, %q", names, d.drift, d.do)
			}
		}
		for _, claims := range []services{{first, other}, {first, second, held("c", 0)}} {
			if d := decide(inputs{now: now, claims: claims, object: ip(names, 0), offered: true}); d.drift != drift.Duplicate {
				t.Errorf("naming %s, of others: %q", names, d.drift)
			}
		}
	}
}

// A command that is killed in the middle leaves the address to both. That is told after a while,
// and repaired by its next run alone.
func TestDecideTellsOfAHandoverThatDoesNotEnd(t *testing.T) {
	first, second := held("a", time.Hour), held("b", time.Hour) // the way back is as long after the second one was created as its owner likes
	first.UID = "1"
	second.Annotations = map[string]string{v1alpha1.AnnotationSecondOf: "a/1"}
	for age, want := range map[time.Duration]decision{
		0:                             {again: handoverWithin},
		handoverWithin - time.Second:  {again: time.Second},
		handoverWithin:                {drift: drift.Duplicate},
		handoverWithin + 24*time.Hour: {drift: drift.Duplicate},
	} {
		for _, names := range []string{"a", "b"} {
			d := decide(inputs{now: now, claims: services{first, second}, object: ip(names, age), offered: true})
			if d.drift != want.drift || d.again != want.again || d.do != leave || len(d.losers) > 0 || (d.drift == "") != (d.note == "") {
				t.Errorf("naming %s, after %v: %+v", names, age, d)
			}
		}
	}
}

// In the IPv6 twin of an address only the family label differs.
func TestDecideKnowsTheFamily(t *testing.T) {
	a := held("a", time.Hour)
	in := inputs{now: now, address: netip.MustParseAddr("fd00::5"), object: ip("a", 0), claims: services{a}}
	if got := decide(in); got.do != relabel {
		t.Errorf("an IPv6 address labelled IPv4 gets action %q, want relabel", got.do)
	}
	labelled(in.object, networkingv1.LabelIPAddressFamily, "IPv6")
	if got := decide(in); got.do != leave || got.drift != drift.None {
		t.Errorf("a right label gets %+v", got)
	}
}

// The API server keeps no IPAddress for a Service that misspells its address, so that another one
// has the right to it, however young.
func TestWhoMisspellsAnAddressDoesNotOwnIt(t *testing.T) {
	spelt := func(name, text string, ago time.Duration) *corev1.Service {
		s := held(name, ago)
		s.Spec.ClusterIPs = []string{text}
		return s
	}
	for _, tc := range []struct {
		address, odd string
	}{{"fd00::ac", "fd00::00AC"}, {"10.0.0.5", "010.0.0.5"}, {"10.0.0.5", "::ffff:10.0.0.5"}} {
		a := netip.MustParseAddr(tc.address)
		odd, right, first := spelt("odd", tc.odd, time.Hour), spelt("right", tc.address, time.Minute), spelt("s", tc.address, time.Hour)
		for name, c := range map[string]struct {
			all, claims, misspelt services
			bitmap                bool
		}{
			"alone":                 {all: services{odd}, misspelt: services{odd}},
			"beside a younger one":  {all: services{odd, right}, claims: services{right, odd}},
			"beside two":            {all: services{odd, right, first}, claims: services{first, right, odd}},
			"alone, in bitmap mode": {all: services{odd}, claims: services{odd}, bitmap: true},
		} {
			claims, misspelt := ranked(c.all, a, c.bitmap)
			if !slices.Equal(claims, c.claims) || !slices.Equal(misspelt, c.misspelt) {
				t.Errorf("%s, %s: claims %v and misspelt %v, want %v and %v", tc.odd, name, claims, misspelt, c.claims, c.misspelt)
			}
		}
	}
}

// The watch shows a new Service before its IPAddress for a moment. An older one has had an
// IPAddress, which was deleted, and the address can be given away until it is back.
func TestAMissingIPAddressOfAnOlderServiceIsConfirmedSooner(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		-time.Second: confirmCreated, time.Second: confirmCreated, settled: confirmDeleted, time.Hour: confirmDeleted,
	} {
		for _, address := range []string{"10.0.0.5", "fd00::5"} {
			in := inputs{now: now, address: netip.MustParseAddr(address), claims: services{held("a", age), held("b", 0)}, offered: true}
			if got := decide(in); got.drift != drift.Missing || got.confirm != want {
				t.Errorf("%s of a Service that is %v old: %q is confirmed after %v, want %v", address, age, got.drift, got.confirm, want)
			}
		}
	}
	if confirmDeleted > 100*time.Millisecond || confirmCreated > time.Second {
		t.Error("one deleted IPAddress is to be back in a fraction of a second, every other one within two")
	}
}
