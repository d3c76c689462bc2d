package ipaddress

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/drift"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// held is a Service that holds the address, ago old.
func held(name string, ago time.Duration) claim {
	return claim{name: types.NamespacedName{Namespace: "ns", Name: name}, created: now.Add(-ago), holds: true}
}

// ip is a healthy IPAddress that names the Service, ago old.
func ip(service string, ago time.Duration) *object {
	o := &object{managedBy: v1alpha1.ManagedByAPIServer, family: "IPv4", created: now.Add(-ago)}
	if service != "" {
		o.service = types.NamespacedName{Namespace: "ns", Name: service}
	}
	return o
}

func managedBy(o *object, manager string) *object { o.managedBy = manager; return o }

func deleting(o *object) *object { o.deleting = true; return o }

func TestDecide(t *testing.T) {
	parent := func(c claim) *claim { return &c }
	notHolding := func(name string, ago time.Duration) *claim { c := held(name, ago); c.holds = false; return &c }
	external := notHolding("a", time.Hour)
	external.externalName = true
	a, b := held("a", time.Hour), held("b", time.Minute)

	for name, tc := range map[string]struct {
		w         world
		wantDrift drift.Type
		wantDo    action
		wantAgain time.Duration
		// wantLosers are told that the address is another Service's.
		wantLosers string
	}{
		"nothing there":                   {w: world{}},
		"the relation holds":              {w: world{object: ip("a", 0), claims: []claim{a}, parent: &a, offered: true}},
		"missing":                         {w: world{claims: []claim{a}, offered: true}, wantDrift: drift.Missing, wantDo: create},
		"missing, two want it":            {w: world{claims: []claim{a, b}, offered: true}, wantDrift: drift.Missing, wantDo: create, wantLosers: "b"},
		"missing outside of every range":  {w: world{claims: []claim{a}}},
		"bitmap mode: not written yet":    {w: world{claims: []claim{a}, offered: true, bitmap: true}, wantDo: create},
		"bitmap mode: released":           {w: world{object: ip("a", 0), bitmap: true}, wantDo: remove},
		"bitmap mode: ExternalName now":   {w: world{object: ip("a", 0), parent: external, bitmap: true}, wantDo: remove},
		"bitmap mode: changed hands":      {w: world{object: ip("gone", 0), claims: []claim{a}, offered: true, bitmap: true}, wantDo: replace},
		"bitmap mode: of another's kind":  {w: world{object: managedBy(ip("gone", 0), ""), claims: []claim{a}, offered: true, bitmap: true}, wantDrift: drift.WrongParent, wantDo: replace},
		"orphan":                          {w: world{object: ip("gone", 61*time.Second)}, wantDrift: drift.Orphan, wantDo: remove},
		"the Service may still come":      {w: world{object: ip("soon", 20*time.Second)}, wantAgain: 40 * time.Second},
		"parent does not hold it":         {w: world{object: ip("a", time.Minute), parent: notHolding("a", time.Hour)}, wantDrift: drift.WrongParent, wantDo: remove},
		"a creation being taken back":     {w: world{object: ip("a", 2*time.Second), parent: notHolding("a", time.Hour)}, wantAgain: 3 * time.Second},
		"older than its parent: no grace": {w: world{object: ip("a", 2*time.Second), parent: notHolding("a", time.Second)}, wantDrift: drift.WrongParent, wantDo: remove},
		"ExternalName becoming ClusterIP": {w: world{object: ip("a", 20*time.Second), parent: external}, wantAgain: 40 * time.Second},
		"ExternalName for good":           {w: world{object: ip("a", time.Hour), parent: external}, wantDrift: drift.WrongParent, wantDo: remove},
		"parent is no Service":            {w: world{object: ip("", 0)}, wantDrift: drift.WrongParent, wantDo: remove},
		"parent is no Service, held":      {w: world{object: ip("", 0), claims: []claim{a}}, wantDrift: drift.WrongParent, wantDo: replace},
		"names another Service":           {w: world{object: ip("b", 0), claims: []claim{a}, parent: notHolding("b", 0)}, wantDrift: drift.WrongParent, wantDo: replace},
		"family label lost":               {w: world{object: &object{managedBy: v1alpha1.ManagedByAPIServer, service: a.name}, claims: []claim{a}}, wantDrift: drift.WrongLabels, wantDo: relabel},
		"manager label lost":              {w: world{object: managedBy(ip("a", 0), ""), claims: []claim{a}}, wantDrift: drift.WrongLabels, wantDo: relabel},
		"manager label replaced":          {w: world{object: managedBy(ip("a", 0), "x"), claims: []claim{a}}, wantDrift: drift.WrongLabels, wantDo: relabel},
		"duplicate, the older is named":   {w: world{object: ip("a", 0), claims: []claim{a, b}, parent: parent(a)}, wantDrift: drift.Duplicate, wantDo: leave, wantLosers: "b"},
		"duplicate, the younger is named": {w: world{object: ip("b", 0), claims: []claim{a, b}, parent: parent(b)}, wantDrift: drift.Duplicate, wantDo: replace, wantLosers: "b"},
		"duplicate without labels":        {w: world{object: managedBy(ip("a", 0), ""), claims: []claim{a, b}}, wantDrift: drift.Duplicate, wantDo: relabel, wantLosers: "b"},
		"orphan held by a finalizer":      {w: world{object: deleting(ip("gone", time.Hour))}},
		"wrong and held by a finalizer":   {w: world{object: deleting(ip("b", 0)), claims: []claim{a}}},
		"foreign, nobody's business":      {w: world{object: managedBy(ip("", time.Hour), "x")}},
		"foreign without label":           {w: world{object: managedBy(ip("gone", time.Hour), "")}},
		"our reservation":                 {w: world{object: managedBy(ip("", time.Hour), v1alpha1.ManagedByOperator)}},
		"foreign on a held address":       {w: world{object: managedBy(ip("", 0), "x"), claims: []claim{a, b}}, wantDrift: drift.WrongParent, wantDo: leave, wantLosers: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.w.now, tc.w.address = now, netip.MustParseAddr("10.0.0.5")
			got := decide(tc.w)
			if got.drift != tc.wantDrift || got.do != tc.wantDo || got.again != tc.wantAgain {
				t.Errorf("got drift %q, action %d, again %v; want %q, %d, %v", got.drift, got.do, got.again, tc.wantDrift, tc.wantDo, tc.wantAgain)
			}
			var losers []string
			for _, l := range got.losers {
				losers = append(losers, l.name.Name)
			}
			if strings.Join(losers, ",") != tc.wantLosers {
				t.Errorf("told %v, want %q", losers, tc.wantLosers)
			}
			if got.drift != drift.None && got.confirm == 0 {
				t.Error("drift must last before it is believed")
			}
			if got.drift == drift.Missing && got.confirm > time.Second {
				t.Errorf("a missing IPAddress is confirmed after %v; it must be back in two seconds", got.confirm)
			}
		})
	}
}

// In the IPv6 twin of an address only the family label differs.
func TestDecideKnowsTheFamily(t *testing.T) {
	a := held("a", time.Hour)
	w := world{now: now, address: netip.MustParseAddr("fd00::5"), object: ip("a", 0), claims: []claim{a}}
	if got := decide(w); got.do != relabel {
		t.Errorf("an IPv6 address labelled IPv4 gets action %d, want relabel", got.do)
	}
	w.object.family = "IPv6"
	if got := decide(w); got.do != leave || got.drift != drift.None {
		t.Errorf("a right label gets %+v", got)
	}
}

func TestTheOlderClaimIsRight(t *testing.T) {
	young, old, twin := held("a", time.Minute), held("c", time.Hour), held("b", time.Hour)
	claims := []claim{young, old, twin}
	sortClaims(claims)
	if got := claims[0].name.Name + claims[1].name.Name + claims[2].name.Name; got != "bca" {
		t.Errorf("order of right is %s, want bca: by age, then by name", got)
	}
}
