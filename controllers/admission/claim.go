package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/ledger"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

const (
	// sight is how long a claim may take to come back by the watch. It takes milliseconds; a watch that is behind by more
	// cannot tell what other replicas did.
	sight = 500 * time.Millisecond
	// glance is the pause between two looks.
	glance = time.Millisecond
)

// errLost says that another replica, or somebody else, was first.
var errLost = errors.New("the address was taken by somebody else")

// claimer settles with other replicas who hands out an address, with the API server as arbiter: the name of an IPAddress is unique.
//
//	create IPAddress (claim) ──> our own watch shows it ──> did another one hand it out before? ──> delete it ──> hand the address out
//
// What another replica claimed and deleted before ours was created comes earlier in the same watch, so that by the time ours is seen, it is
// known. What another one claims later fails while ours stands, and sees ours come and go after that.
type claimer struct {
	client client.Writer
	ledger *ledger.Ledger
	// replica is the name that claims bear.
	replica string
}

// claim settles an assumed address. After nil it may be handed out. After errLost it stays assumed, for whoever has it; after another error
// it is given back.
func (c *claimer) claim(ctx context.Context, a netip.Addr) error {
	if err := ctx.Err(); err != nil {
		c.ledger.Forget(a)
		return fmt.Errorf("claiming %s: %w", a, err)
	}
	ip := c.object(a)
	err := c.client.Create(ctx, ip)
	switch {
	case apierrors.IsAlreadyExists(err):
		c.ledger.Lost(a)
		return errLost
	case ctx.Err() != nil, apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		c.ledger.Lost(a) // it may have been written
		return fmt.Errorf("claiming %s: %w", a, err)
	case err != nil:
		c.ledger.Forget(a)
		return fmt.Errorf("claiming %s: %w", a, err)
	}
	c.ledger.Claimed(a, ip.UID)
	seen := c.awaitSight(ctx, a, ip.UID)
	lost := c.ledger.HandedElsewhere(a)
	if err := c.unclaim(ctx, a, ip.UID); err != nil && !lost {
		c.ledger.Lost(a) // the claim may stand for a while: nobody gets the address
		return err
	}
	switch {
	case lost:
		return errLost
	case !seen:
		c.ledger.Lost(a)
		return fmt.Errorf("claiming %s: the watch is behind by more than %s", a, sight)
	}
	return nil
}

// unclaim deletes a claim, also when the request that it was for has ended: it would keep the address from everybody.
func (c *claimer) unclaim(ctx context.Context, a netip.Addr, uid types.UID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sight)
	defer cancel()
	return c.remove(ctx, a, uid)
}

// awaitSight waits until the watch shows the claim.
func (c *claimer) awaitSight(ctx context.Context, a netip.Addr, claim types.UID) bool {
	ctx, cancel := context.WithTimeout(ctx, sight)
	defer cancel()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		over := ctx.Err() != nil // before the last look: this machine may have stood still, and the watch shows the claim all the same
		if k, ok := c.ledger.Kept(a); ok && k.UID == claim {
			return true
		}
		if over {
			return false
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// makeRoom deletes what we keep at an assumed address, so that the API server can write its own IPAddress. Of two replicas that try one
// succeeds; the other gets errLost.
func (c *claimer) makeRoom(ctx context.Context, a netip.Addr) error {
	k, ok := c.ledger.Kept(a)
	if !ok {
		return nil
	}
	if k.Purpose != v1alpha1.PurposeReservation && k.Purpose != v1alpha1.PurposeCooling {
		c.ledger.Lost(a) // another replica's claim, or an additional address of somebody
		return errLost
	}
	return c.makeRoomOf(ctx, a, k.UID)
}

// makeRoomOf is makeRoom for what is known to be kept there.
func (c *claimer) makeRoomOf(ctx context.Context, a netip.Addr, uid types.UID) error {
	err := c.remove(ctx, a, uid)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		c.ledger.Lost(a)
		return errLost
	case err != nil:
		c.ledger.Forget(a)
		return err
	}
	return nil
}

// remove deletes an IPAddress of ours, and no other of its name.
func (c *claimer) remove(ctx context.Context, a netip.Addr, uid types.UID) error {
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: a.String()}}
	if err := c.client.Delete(ctx, ip, client.Preconditions{UID: &uid}); err != nil {
		return fmt.Errorf("deleting IPAddress %s: %w", a, err)
	}
	return nil
}

func (c *claimer) object(a netip.Addr) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: a.String(), Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: upstream.Family(a),
			networkingv1.LabelManagedBy:       v1alpha1.ManagedByOperator,
			v1alpha1.LabelPurpose:             v1alpha1.PurposeClaim,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Group: v1alpha1.Prefix, Resource: "replicas", Name: c.replica,
		}},
	}
}
