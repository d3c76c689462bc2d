package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/replicas"
)

// replica is one of the operator's. Its methods are for the goroutine of a spec, but for owns.
type replica struct {
	*replicas.Members
	line *line
	stop func()
	dead chan struct{}

	mu   sync.Mutex
	lent []netip.Addr
}

// lend lends every address once.
func (r *replica) lend(a netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.lent, a) {
		return false
	}
	r.lent = append(r.lent, a)
	return true
}

// lentOut returns what it has lent.
func (r *replica) lentOut() []netip.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lent)
}

// borrowed lets all borrowers ask for all addresses at once, and returns the answers that come in time.
func borrowed(ctx context.Context, addresses []netip.Addr, borrowers ...*replica) map[netip.Addr][]replicas.Grant {
	GinkgoHelper()
	var mu sync.Mutex
	var borrowing sync.WaitGroup
	began, answers, late := time.Now(), map[netip.Addr][]replicas.Grant{}, 0
	for _, address := range addresses {
		for _, borrower := range borrowers {
			borrowing.Go(func() {
				defer GinkgoRecover()
				granted, err := borrower.Borrow(ctx, address)
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, replicas.ErrNoAnswer) {
					late++
					return
				}
				Expect(err).NotTo(HaveOccurred())
				answers[address] = append(answers[address], granted)
			})
		}
	}
	borrowing.Wait()
	AddReportEntry(fmt.Sprintf("%d asks, %d of them late", len(addresses)*len(borrowers), late), time.Since(began))
	return answers
}

// crew are the replicas of a container; dismiss stops all of them.
type crew struct {
	config *rest.Config
	all    []*replica
}

func (c *crew) dismiss() {
	for _, r := range c.all {
		r.stop()
	}
}

// start starts a replica, which the auditor looks at from now on.
func (c *crew) start(identity string, look *auditor) *replica {
	GinkgoHelper()
	r := &replica{line: &line{}, dead: make(chan struct{})}
	config := rest.CopyConfig(c.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		r.line.next = next
		return r.line
	})
	leases, err := client.NewWithWatch(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	r.Members = replicas.New(replicas.Options{
		Namespace: namespace, Identity: identity, Client: leases, Duration: duration, Renew: renew, Settle: settle, Lend: r.lend,
	})
	ctx, cancel := context.WithCancel(logf.IntoContext(context.Background(), GinkgoLogr))
	var running sync.WaitGroup
	running.Go(func() { _ = r.Start(ctx) })
	r.stop = func() {
		cancel()
		running.Wait()
	}
	c.all = append(c.all, r)
	look.add(r)
	return r
}

// kill ends it without a farewell. Nobody may ask it any more.
func (r *replica) kill() {
	close(r.dead)
	r.line.cut()
	r.stop()
}

// sure reports whether it is sure of its shard; a dead one is not.
func (r *replica) sure() bool {
	_, sure := r.owns(netip.Addr{})
	return sure
}

// owns reports whether it would draw the address without asking, and whether it is sure at all.
func (r *replica) owns(a netip.Addr) (owns, sure bool) {
	select {
	case <-r.dead:
		return false, false
	default:
	}
	shard, sure := r.Shard()
	return sure && shard.Owns(a), sure
}

var errLost = errors.New("lost on the way")

// line is the way to the API server. The zero line is open.
type line struct {
	next http.RoundTripper

	mu sync.Mutex
	// mended is nil as long as nothing is wrong.
	mended chan struct{}
}

// RoundTrip implements http.RoundTripper: what is sent over a line that is cut gets lost.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	mended := l.mended
	l.mu.Unlock()
	if mended == nil {
		return l.next.RoundTrip(r)
	}
	select {
	case <-r.Context().Done():
	case <-mended:
	}
	return nil, errLost
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mended = make(chan struct{})
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.mended)
	l.mended = nil
}
