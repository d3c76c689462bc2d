package enforcement

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// confirm is how long a Service must have an address kept for other Services before that is told:
// the watches of namespaces, Services and policies have no order between them.
const confirm = 2 * time.Second

// violation is an address that a Service has and that a policy keeps for other Services.
type violation struct {
	policy  string
	service types.NamespacedName
	uid     types.UID
	// since is when it was first seen, confirmed whether it has lasted.
	since     time.Time
	confirmed bool
}

// violations are all of them by address. The zero value is ready and safe for concurrent use.
type violations struct {
	mu        sync.Mutex
	found     map[netip.Addr]violation
	confirmed int
}

// note keeps what was seen of an address, nil for nothing. It returns the policies whose confirmed
// violations have changed, whether this one is new, and how long to wait until it is confirmed.
func (v *violations) note(a netip.Addr, seen *violation, now time.Time) (policies []string, news bool, wait time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was, known := v.found[a]
	same := known && seen != nil && was.policy == seen.policy && was.uid == seen.uid
	if known && !same {
		delete(v.found, a)
		if was.confirmed {
			v.confirmed--
			policies = append(policies, was.policy)
		}
	}
	if seen == nil || same && was.confirmed {
		return policies, false, 0
	}
	if !same {
		was = *seen
		was.since = now
	}
	if wait = confirm - now.Sub(was.since); wait <= 0 {
		was.confirmed = true
		v.confirmed++
		policies, news, wait = append(policies, was.policy), true, 0
	}
	if v.found == nil {
		v.found = map[netip.Addr]violation{}
	}
	v.found[a] = was
	return policies, news, wait
}

func (v *violations) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.confirmed
}

// namesShown is how many Services a message names.
const namesShown = 3

// of returns how many a policy has, and the first by their addresses, in words.
func (v *violations) of(policy string) (n int, first []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var addresses []netip.Addr
	for a, of := range v.found {
		if of.confirmed && of.policy == policy {
			addresses = append(addresses, a)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	for _, a := range addresses[:min(len(addresses), namesShown)] {
		first = append(first, fmt.Sprintf("Service %s has %s", v.found[a].service, a))
	}
	return len(addresses), first
}

// audit looks whether a Service has an address that is kept for other Services.
func (r *Reconciler) audit(ctx context.Context, a netip.Addr) (reconcile.Result, error) {
	s, owner, err := r.excluded(ctx, a)
	if err != nil {
		return reconcile.Result{}, err
	}
	var seen *violation
	if s != nil {
		seen = &violation{policy: owner.Name, service: client.ObjectKeyFromObject(s), uid: s.UID}
	}
	policies, news, wait := r.violations.note(a, seen, r.Clock.Now())
	if len(policies) > 0 {
		metrics.ExclusiveViolations.Set(float64(r.violations.count()))
	}
	r.reportSoon(policies...)
	if news && r.events.Allow() {
		r.Events.Eventf(s, upstream.Named(a.String()), corev1.EventTypeWarning, "ClusterIPKeptForOthers", "Audit",
			"Cluster IP %s lies in a range that ServiceCIDRPolicy %q keeps for other Services; create the Service anew to get another address", a, owner.Name)
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// excluded returns the Service, as the API server has it, with an address that a policy keeps for
// other Services, and that policy, or nil. The cache lacks their labels: they are read if needed.
func (r *Reconciler) excluded(ctx context.Context, a netip.Addr) (*corev1.Service, *steering.Policy, error) {
	rules := r.Policies.Current()
	for _, name := range slices.SortedFunc(slices.Values(r.Index.Claims(a)), byName) {
		namespace := &corev1.Namespace{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: name.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
			return nil, nil, fmt.Errorf("reading namespace %s: %w", name.Namespace, err)
		}
		who := steering.Service{NamespacedName: name, NamespaceLabels: namespace.Labels}
		if excluded, sure := rules.Excluded(a, who); sure && !excluded {
			continue
		}
		s := &corev1.Service{}
		if err := r.Live.Get(ctx, name, s); client.IgnoreNotFound(err) != nil {
			return nil, nil, fmt.Errorf("reading Service %s: %w", name, err)
		}
		who.Labels = s.Labels
		if excluded, _ := rules.Excluded(a, who); excluded && slices.Contains(addressindex.ClusterIPs(s), a) {
			return s, rules.Owner(a), nil
		}
	}
	return nil, nil, nil
}

func byName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
