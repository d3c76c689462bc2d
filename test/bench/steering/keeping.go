package steering

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

const (
	// keepingRange is large enough for what is reserved and what cools.
	keeping, keepingRange = "keeping", "10.64.0.0/20"
	cooling               = "cooling"
)

// Kept is how fast the operator keeps addresses, and gives them up.
type Kept struct {
	Addresses int
	// Placed is the time from the policy, or from the first deletion of a Service, until all are in
	// place; Removed from the deletion of the policy until they are gone.
	Placed, Removed time.Duration
	// Manager and API are the processor time that placing took.
	Manager, API time.Duration
}

// Deletions is what deleting Services came to.
type Deletions struct {
	load.Outcome
	// Writes to IPAddresses for each deleted Service, those by the API server included, until the end.
	Writes float64
}

// Keeping is what was measured about addresses that are kept.
type Keeping struct {
	Reserved, Cooled Kept
	// Plain are deletions without a cool-down, Cooling with one.
	Plain, Cooling Deletions
}

func (e *environment) measureKeeping(ctx context.Context, o Options) (k Keeping, err error) {
	if err := e.setWebhooks(ctx, true); err != nil {
		return k, err
	}
	if err := e.offer(ctx, keeping, keepingRange); err != nil {
		return k, err
	}
	if k.Reserved, err = e.measureReservation(ctx, o.Reserved); err != nil {
		return k, fmt.Errorf("measuring reservations: %w", err)
	}
	e.log.Step("%d addresses reserved after %.1f s, free after %.1f s", k.Reserved.Addresses, k.Reserved.Placed.Seconds(), k.Reserved.Removed.Seconds())
	if k.Plain, _, err = e.measureDeletions(ctx, o.Cooled, 0); err != nil {
		return k, fmt.Errorf("measuring deletions: %w", err)
	}
	if k.Cooling, k.Cooled, err = e.measureDeletions(ctx, o.Cooled, time.Hour); err != nil {
		return k, fmt.Errorf("measuring the cool-down: %w", err)
	}
	e.log.Step("%d addresses cool after %.1f s, free after %.1f s; writes for each deletion: %.2f, %.2f without", k.Cooled.Addresses, k.Cooled.Placed.Seconds(),
		k.Cooled.Removed.Seconds(), k.Cooling.Writes, k.Plain.Writes)
	return k, nil
}

// measureReservation reserves n addresses.
func (e *environment) measureReservation(ctx context.Context, n int) (k Kept, err error) {
	p := newPolicy("reserving", keeping)
	for i := range n { // as many entries as addresses would be another extreme; ranges of 64 are what people write
		if i%64 == 0 {
			first := fmt.Sprintf("10.64.%d.%d/26", 4+i/256, i%256)
			p.Spec.Reservations = append(p.Spec.Reservations, v1alpha1.Reservation{Name: fmt.Sprintf("part-%d", i/64), Address: first})
		}
	}
	k.Addresses = n
	if err := e.settle(ctx); err != nil {
		return k, err
	}
	err = e.place(ctx, &k, v1alpha1.PurposeReservation, func(ctx context.Context) error { return e.client.Create(ctx, p) })
	if err != nil {
		return k, err
	}
	return k, e.giveUp(ctx, &k, v1alpha1.PurposeReservation, p)
}

// place does something and waits until all addresses are in place for its purpose.
func (e *environment) place(ctx context.Context, k *Kept, purpose string, do func(context.Context) error) error {
	before, err := e.used(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := do(ctx); err != nil {
		return err
	}
	if err := e.waitKept(ctx, purpose, k.Addresses); err != nil {
		return err
	}
	k.Placed = time.Since(start)
	after, err := e.used(ctx)
	k.Manager, k.API = after.Managers-before.Managers, after.API-before.API
	return err
}

// giveUp deletes a policy and waits until nothing is kept for a purpose.
func (e *environment) giveUp(ctx context.Context, k *Kept, purpose string, p *v1alpha1.ServiceCIDRPolicy) error {
	start := time.Now()
	if err := e.client.Delete(ctx, p); err != nil {
		return err
	}
	err := e.waitKept(ctx, purpose, 0)
	k.Removed = time.Since(start)
	return err
}

// waitKept waits until the operator keeps n addresses for a purpose.
func (e *environment) waitKept(ctx context.Context, purpose string, n int) error {
	return e.until(ctx, fmt.Sprintf("%d addresses with the purpose %s", n, purpose), func(ctx context.Context) (bool, error) {
		options := metav1.ListOptions{LabelSelector: v1alpha1.LabelPurpose + "=" + purpose, ResourceVersion: "0"}
		list, err := e.Client.NetworkingV1().IPAddresses().List(ctx, options)
		return err == nil && len(list.Items) == n, err
	})
}

// measureDeletions deletes Services of a policy, with a cool-down or none, and waits until all of
// their addresses cool, and until they do not.
func (e *environment) measureDeletions(ctx context.Context, n int, coolDown time.Duration) (d Deletions, k Kept, err error) {
	p := newPolicy(cooling, keeping)
	if coolDown > 0 {
		p.Spec.CoolDown = &metav1.Duration{Duration: coolDown}
		k.Addresses = n
	}
	if err := e.enforce(ctx, p); err != nil {
		return d, k, err
	}
	if err := e.createAll(n, labelled(cooling))(ctx); err != nil {
		return d, k, err
	}
	if err := e.settle(ctx); err != nil {
		return d, k, err
	}
	before, err := e.writes(ctx)
	if err != nil {
		return d, k, err
	}
	err = e.place(ctx, &k, v1alpha1.PurposeCooling, func(ctx context.Context) error {
		d.Outcome, err = load.Load{Workers: helpers, Count: n}.Run(ctx, e.remove)
		return err
	})
	if err != nil {
		return d, k, err
	}
	if err := e.giveUp(ctx, &k, v1alpha1.PurposeCooling, p); err != nil {
		return d, k, err
	}
	after, err := e.writes(ctx)
	d.Writes = (after - before) / float64(n)
	return d, k, err
}

// writes is how many requests wrote IPAddresses, as the API server counts them, its own included.
func (e *environment) writes(ctx context.Context) (sum float64, err error) {
	text, err := e.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	metrics, err := framework.ParseMetrics(string(text))
	if err != nil {
		return 0, err
	}
	for _, verb := range []string{"POST", "PUT", "PATCH", "APPLY", "DELETE"} {
		value, _ := metrics.Value("apiserver_request_total", "resource", "ipaddresses", "verb", verb)
		sum += value
	}
	return sum, nil
}
