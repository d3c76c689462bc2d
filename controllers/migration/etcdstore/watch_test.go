package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// watcher is a Watch in the background, with what it has seen.
type watcher struct {
	mu     sync.Mutex
	seen   []migration.Value
	err    chan error
	cancel context.CancelFunc
}

// follow starts a watch that ends with the calling node.
func follow(ctx context.Context, s *Store, folder string, after int64) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{err: make(chan error, 1), cancel: cancel}
	go func() {
		w.err <- s.Watch(ctx, folder, after, func(v migration.Value) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen = append(w.seen, v)
			return nil
		})
	}()
	DeferCleanup(cancel)
	return w
}

// values returns what was seen.
func (w *watcher) values() []migration.Value {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// Seen returns what was seen, as line does.
func (w *watcher) Seen() []string {
	var lines []string
	for _, v := range w.values() {
		lines = append(lines, line(v))
	}
	return lines
}

var _ = Describe("watching", func() {
	var (
		etcd  *framework.Etcd
		store *Store
		start int64
	)

	BeforeEach(func(ctx SpecContext) {
		etcd, store = startStore(ctx)
		start = put(ctx, store, "w/a", "0")
	})

	It("shows creations, changes and deletions below its folder, in order", func(ctx SpecContext) {
		w := follow(ctx, store, "w", start)
		put(ctx, store, "w/a", "1")
		put(ctx, store, "w/b", "2")
		put(ctx, store, "w", "not below")
		put(ctx, store, "w2/a", "a neighbour")
		remove(ctx, store, "w/a")
		raw, err := encode(ipAddress(), "networking.k8s.io/v1beta1")
		Expect(err).NotTo(HaveOccurred())
		put(ctx, store, "w/ip", string(raw))
		put(ctx, store, "w/empty", "")
		Eventually(w.Seen).Should(Equal([]string{"w/a=1@3", "w/b=2@4", "w/a@7", "w/ip=" + string(raw) + "@8", "w/empty=@9"}))

		Expect(w.seen[0]).To(HaveField("CreateRevision", start))
		Expect(w.seen[2]).To(Equal(migration.Value{Key: "w/a", ModRevision: 7}))
		Expect(w.seen[3]).To(And(HaveField("APIVersion", "networking.k8s.io/v1beta1"), HaveField("Err", BeNil())))
		Expect(w.seen[3].Object.(*networkingv1.IPAddress).ResourceVersion).To(Equal("8"))

		By("from any revision on, also from the first")
		Eventually(follow(ctx, store, "w", 6).Seen).Should(Equal(w.Seen()[2:]))
		Eventually(follow(ctx, store, "w", 0).Seen).Should(Equal(append([]string{"w/a=0@2"}, w.Seen()...)))
		Eventually(follow(ctx, store, "/registry/w/", 6).Seen).Should(Equal(w.Seen()[2:]))

		w.cancel()
		Eventually(w.err).Should(Receive(MatchError(context.Canceled)))
	})

	It("ends with the error of who watches, be it one that etcd could have had", func(ctx SpecContext) {
		put(ctx, store, "w/a", "1")
		for _, enough := range []error{errors.New("enough"), status.Error(codes.Unavailable, "EOF"), context.DeadlineExceeded} {
			Expect(store.Watch(ctx, "w", start, func(migration.Value) error { return enough })).To(BeIdenticalTo(enough))
		}
	})

	It("goes on after etcd was stopped and started, and misses nothing", func(ctx SpecContext) {
		w := follow(ctx, store, "w", start)
		var want []string
		for round, end := range []func() error{etcd.Stop, etcd.Kill} {
			want = append(want, fmt.Sprintf("w/a=%d@%d", round, put(ctx, store, "w/a", fmt.Sprint(round))))
			Expect(end()).To(Succeed())
			time.Sleep(500 * time.Millisecond) // the watch tries in vain
			Expect(etcd.Start(ctx)).To(Succeed())
			missed := openAt(ctx, etcd.URL())
			want = append(want, fmt.Sprintf("w/a=while it was away@%d", put(ctx, missed, "w/a", "while it was away")))
			Eventually(w.Seen, time.Minute).Should(Equal(want))
		}
		Expect(w.err).NotTo(Receive())
	})

	It("says so when etcd comes back without what happened meanwhile", func(ctx SpecContext) {
		p := newProxy(etcd.URL())
		w := follow(ctx, openAt(ctx, p.URL()), "w", start)
		seen := put(ctx, store, "w/a", "1")
		Eventually(w.Seen).Should(HaveLen(1))
		p.deaf.Store(true)
		p.mute.Store(true)
		put(ctx, store, "w/a", "2")
		compact(ctx, store, put(ctx, store, "w/a", "3"))
		p.Heal()
		Eventually(w.err, 10*time.Second).Should(Receive(And(
			MatchError(migration.ErrCompacted), MatchError(ContainSubstring(fmt.Sprintf("after revision %d", seen))))))
		Expect(w.Seen()).To(HaveLen(1))
	})

	It("finds out by itself that a connection is dead", Label("long"), func(ctx SpecContext) {
		p := newProxy(etcd.URL())
		w := follow(ctx, openAt(ctx, p.URL()), "w", start)
		put(ctx, store, "w/a", "1")
		Eventually(w.Seen).Should(HaveLen(1))
		p.deaf.Store(true)
		p.mute.Store(true)
		put(ctx, store, "w/a", "2")
		Eventually(p.Open, time.Minute).Should(BeZero()) // the store gives its connection up, not the proxy
		p.deaf.Store(false)
		p.mute.Store(false)
		Eventually(w.Seen, 10*time.Second).Should(Equal([]string{"w/a=1@3", "w/a=2@4"}))
	})
})
