package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

// repairs are the reasons of the events in which the API server's repair loop complains.
var repairs = []string{
	"ClusterIPNotValid", "ClusterIPOutOfRange", "ClusterIPNotAllocated", "ClusterIPAlreadyAllocated",
	"IPAddressNotAllocated", "IPAddressWrongReference",
}

// portion is how many copies are added at a time, all IPAddresses before the first Service: one
// without a Service has a minute's grace, a Service without an IPAddress is repaired at once.
const portion = 10_000

// Grow adds copies until there are n of them, and returns when the API server has them.
func (c *Cluster) Grow(ctx context.Context, n int) error {
	if n <= c.Copies {
		return nil
	}
	c.log.Step("writing %d Services with their IPAddresses to etcd", n-c.Copies)
	for c.Copies < n {
		most := portion
		if c.Second.IsValid() {
			most = 5_000 - c.Copies%5_000
		}
		if err := c.addPortion(ctx, min(n, c.Copies+most)); err != nil {
			return err
		}
	}
	if err := c.Settle(ctx, time.Minute); err != nil {
		return err
	}
	return c.verify(ctx)
}

// addPortion adds copies until there are n.
func (c *Cluster) addPortion(ctx context.Context, n int) error {
	s := c.copies(n)
	for _, of := range s.Ranges {
		addresses := s
		addresses.Ranges = []netip.Prefix{of}
		if err := addresses.WriteIPAddresses(ctx); err != nil {
			return err
		}
	}
	if err := c.waitServed(ctx, s); err != nil {
		return err
	}
	// The API server's own informers follow its watch caches.
	if err := c.Settle(ctx, 10*time.Second); err != nil {
		return err
	}
	if err := s.WriteServices(ctx); err != nil {
		return err
	}
	c.Copies = n
	return nil
}

// Template is NAMESPACE/NAME of the Service that is copied.
const Template = Namespace + "/" + template

// copies are those that are missing until there are n.
func (c *Cluster) copies(n int) seed.Copies {
	s := seed.Copies{Etcd: c.Etcd.URL(), Template: Template, Ranges: []netip.Prefix{Range}, From: c.Copies, To: n, Pace: seed.Pace}
	if c.Second.IsValid() && c.Copies/5_000%2 == 1 {
		s.Ranges[0] = c.Second
	}
	if c.Dual {
		s.Ranges = append(s.Ranges, RangeV6)
	}
	return s
}

// Stock adds copies until there are n, with bits in the bitmaps but without IPAddresses, as an API
// server with bitmaps leaves them; it must not run then. ranges are its own; mixed: see Copies.
func (c *Cluster) Stock(ctx context.Context, n int, ranges string, mixed bool) error {
	if c.API.Running() {
		return errors.New("services are not written to etcd behind the back of an API server that keeps bitmaps")
	}
	s := c.copies(n)
	s.Ranges, s.Pace, s.Mixed = nil, 0, mixed
	for text := range strings.SplitSeq(ranges, ",") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		s.Ranges = append(s.Ranges, p)
	}
	if err := s.WriteServices(ctx); err != nil {
		return err
	}
	if err := s.WriteBitmaps(ctx); err != nil {
		return err
	}
	c.Copies = n
	return nil
}

// families is how many addresses a copy has.
func (c *Cluster) families() int {
	if c.Dual {
		return 2
	}
	return 1
}

// waitServed waits until the API server serves the addresses of the copy that was written last.
func (c *Cluster) waitServed(ctx context.Context, s seed.Copies) error {
	for _, of := range s.Ranges {
		name := seed.Address(of, s.To-1).String()
		err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, serveTimeout, true, func(ctx context.Context) (bool, error) {
			_, err := c.Client.NetworkingV1().IPAddresses().Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"}) // from the cache
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return true, err
		})
		if err != nil {
			return fmt.Errorf("waiting for IPAddress %s: %w", name, err)
		}
	}
	return nil
}

// serveTimeout is shorter than the grace in which an IPAddress may be without its Service.
const serveTimeout = 50 * time.Second

// copyPrefix begins the name of every copied Service.
const copyPrefix = "service-"

// IsCopy reports whether a Service of this name is one that Grow has added.
func IsCopy(service string) bool { return strings.HasPrefix(service, copyPrefix) }

// verify fails if the API server found fault with the copies and changed something. Talk of repairs
// alone is no failure: while its caches lag behind etcd, it reports Services that it just created.
func (c *Cluster) verify(ctx context.Context) error {
	list, err := c.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing IPAddresses: %w", err)
	}
	copies := 0
	for _, ip := range list.Items {
		if ip.Spec.ParentRef != nil && IsCopy(ip.Spec.ParentRef.Name) {
			copies++
		}
	}
	if want := c.Copies * c.families(); copies != want {
		return fmt.Errorf("the copies have %d IPAddresses instead of %d: the API server did not accept what was written to etcd", copies, want)
	}
	return nil
}

// Repairs counts the events about repairs by the API server's repair loop that pass filter.
func (c *Cluster) Repairs(ctx context.Context, filter func(*eventsv1.Event) bool) (n int, err error) {
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.Client.EventsV1().Events(metav1.NamespaceAll).List(ctx, o)
	}
	err = pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if e := o.(*eventsv1.Event); slices.Contains(repairs, e.Reason) && filter(e) {
			n++
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("counting events: %w", err)
	}
	return n, nil
}

// Settle waits until the API server and etcd need less than a tenth of one processor. After timeout
// it gives up without an error.
func (c *Cluster) Settle(ctx context.Context, timeout time.Duration) error {
	const window, idle = 500 * time.Millisecond, 50 * time.Millisecond
	before, err := c.cpu()
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, window, timeout, false, func(context.Context) (bool, error) {
		after, err := c.cpu()
		quiet := after-before < idle
		before = after
		return quiet, err
	})
	if ctx.Err() == nil && wait.Interrupted(err) {
		return nil
	}
	return err
}

func (c *Cluster) cpu() (time.Duration, error) {
	api, err := c.API.CPUTime()
	if err != nil {
		return 0, err
	}
	etcd, err := c.Etcd.CPUTime()
	return api + etcd, err
}

// Peer runs the tool module peer-allocation and decodes the JSON that it prints into result.
func Peer(ctx context.Context, result any, args ...string) error {
	dir, err := framework.Assets("peer-allocation")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "peer-allocation"), args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("running peer-allocation: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	if err := json.Unmarshal(out, result); err != nil {
		return fmt.Errorf("reading what peer-allocation printed: %w", err)
	}
	return nil
}
