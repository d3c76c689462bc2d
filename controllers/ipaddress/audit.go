package ipaddress

import (
	"context"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/drift"
)

// Finding is what is wrong with one address, and the remedy. Same tells whether it still holds.
type Finding struct {
	Address netip.Addr
	// Drift is the type, as the metric clusterip_operator_drift has it.
	Drift string
	// Do is create, delete, replace or relabel, of the IPAddress; empty where only people can help.
	Do string
	// Owner is the Service that has a right to the address, and ServiceUID its UID; empty without one.
	Owner      types.NamespacedName
	ServiceUID types.UID
	// IPAddressUID and ResourceVersion are those of the IPAddress; empty without one.
	IPAddressUID    types.UID
	ResourceVersion string
	// Losers are Services that have the address without a right to it.
	Losers []types.NamespacedName
	Note   string
}

// Judge decides about an address by what a reader has. Nil: nothing is wrong, or it is too early to
// tell. Only Index, Clock and Bitmap of the Reconciler are used.
func (r *Reconciler) Judge(ctx context.Context, a netip.Addr, from client.Reader) (*Finding, error) {
	f, _, err := r.judge(ctx, a, from)
	return f, err
}

func (r *Reconciler) judge(ctx context.Context, a netip.Addr, from client.Reader) (*Finding, inputs, error) {
	in, err := r.gather(ctx, a, from, from)
	if err != nil {
		return nil, in, fmt.Errorf("reading what has to do with %s: %w", a, err)
	}
	d := decide(in)
	if d.drift == drift.None {
		return nil, in, nil
	}
	f := &Finding{Address: a, Drift: string(d.drift), Do: string(d.do), Note: d.note}
	if owner := in.owner(); owner != nil {
		f.Owner, f.ServiceUID = key(owner), owner.UID
	}
	if in.object != nil {
		f.IPAddressUID, f.ResourceVersion = in.object.UID, in.object.ResourceVersion
	}
	for _, s := range d.losers {
		f.Losers = append(f.Losers, key(s))
	}
	return f, in, nil
}

// Same reports whether two findings are one: the same objects and versions, with the same remedy.
func (f Finding) Same(other Finding) bool {
	return f.Address == other.Address && f.Drift == other.Drift && f.Do == other.Do && f.Owner == other.Owner && f.ServiceUID == other.ServiceUID &&
		f.IPAddressUID == other.IPAddressUID && f.ResourceVersion == other.ResourceVersion
}

// Repair does what a finding says if the API server still shows it, and returns what that shows,
// nil for nothing. UID and version, or the unique name, guard each write. It uses Client and Live.
func (r *Reconciler) Repair(ctx context.Context, f Finding, dryRun bool) (now *Finding, done bool, err error) {
	now, in, err := r.judge(ctx, f.Address, r.Live)
	if err != nil || now == nil || !now.Same(f) || dryRun {
		return now, false, err
	}
	done, err = r.apply(ctx, in, action(f.Do))
	return now, done, err
}
