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
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
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
		etcd = startEtcd(ctx)
		store = openAt(ctx, etcd.URL())
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

	It("shows a transaction whole", func(ctx SpecContext) {
		w := follow(ctx, store, "w", start)
		revision, err := store.Commit(ctx, []migration.Write{
			{Key: "w/a", Guard: start, Delete: true}, {Key: "w/c", Raw: []byte("2")}, {Key: "w/b", Raw: []byte("1")},
		})
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.Seen).Should(ConsistOf(fmt.Sprintf("w/a@%d", revision), fmt.Sprintf("w/b=1@%d", revision), fmt.Sprintf("w/c=2@%d", revision)))
	})

	It("ends with the error of who watches, be it one that etcd could have had", func(ctx SpecContext) {
		put(ctx, store, "w/a", "1")
		for _, enough := range []error{errors.New("enough"), errCutOff, context.DeadlineExceeded} {
			Expect(store.Watch(ctx, "w", start, func(migration.Value) error { return enough })).To(BeIdenticalTo(enough))
		}
	})

	It("goes on after etcd was stopped and started, and misses nothing", func(ctx SpecContext) {
		w := follow(ctx, store, "w", start)
		var want []string
		for round := range 3 {
			for i := range 5 {
				value := fmt.Sprintf("%d.%d", round, i)
				want = append(want, fmt.Sprintf("w/a=%s@%d", value, put(ctx, store, "w/a", value)))
			}
			if round == 1 {
				Expect(etcd.Kill()).To(Succeed())
			} else {
				Expect(etcd.Stop()).To(Succeed())
			}
			time.Sleep(500 * time.Millisecond) // the watch tries in vain
			Expect(etcd.Start(ctx)).To(Succeed())
			missed, err := clientv3.NewFromURL(etcd.URL())
			Expect(err).NotTo(HaveOccurred())
			answer, err := missed.Put(ctx, "/registry/w/a", "while it was away")
			Expect(err).NotTo(HaveOccurred())
			Expect(missed.Close()).To(Succeed())
			want = append(want, fmt.Sprintf("w/a=while it was away@%d", answer.Header.Revision))
			Eventually(w.Seen, time.Minute).Should(Equal(want))
		}
		Expect(w.err).NotTo(Receive())
	})

	It("begins while etcd is away", func(ctx SpecContext) {
		Expect(etcd.Kill()).To(Succeed())
		w := follow(ctx, store, "w", 0)
		Consistently(w.Seen, 300*time.Millisecond).Should(BeEmpty())
		Expect(etcd.Start(ctx)).To(Succeed())
		Eventually(w.Seen, 10*time.Second).Should(Equal([]string{"w/a=0@2"}))
	})

	It("says so when etcd has forgotten what happened", func(ctx SpecContext) {
		for range 5 {
			put(ctx, store, "w/a", "x")
		}
		now := put(ctx, store, "w/a", "last")
		compact(ctx, store, now)
		err := store.Watch(ctx, "w", start, func(migration.Value) error { return nil })
		Expect(err).To(MatchError(migration.ErrCompacted))
		Expect(err).To(MatchError(ContainSubstring("watching /registry/w/ after revision 2")))

		By("not if nothing after the revision is forgotten")
		Eventually(follow(ctx, store, "w", now-1).Seen).Should(Equal([]string{fmt.Sprintf("w/a=last@%d", now)}))
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

	It("finds out by itself that a connection is dead", func(ctx SpecContext) {
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

	It("catches up with a long history, in order", func(ctx SpecContext) {
		const n = 3000
		for i := 0; i < n; i += 100 {
			putMany(ctx, store, fmt.Sprintf("w/%05d", i), 100, func(int) string { return "x" })
		}
		w := follow(ctx, store, "w", start)
		Eventually(w.Seen, 10*time.Second).Should(HaveLen(n))
		Expect(slices.IsSortedFunc(w.seen, func(a, b migration.Value) int { return int(a.ModRevision - b.ModRevision) })).To(BeTrue())
	})
})

var _ = Describe("progress", func() {
	It("moves a watch on past what others write, and never past what it has not seen", func() {
		s := &Store{keys: newKeys(DefaultPrefix)}
		w := &watch{store: s, last: 5, see: func(migration.Value) error { return nil }}
		progress := clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: 9}}
		Expect(w.show(progress)).To(Succeed())
		Expect(w.last).To(BeEquivalentTo(9))

		batch := clientv3.WatchResponse{
			Header: &etcdserverpb.ResponseHeader{Revision: 20}, // there is more to come before 20
			Events: []*clientv3.Event{{Kv: &mvccpb.KeyValue{Key: []byte("/registry/w/a"), ModRevision: 12}}},
		}
		Expect(w.show(batch)).To(Succeed())
		Expect(w.last).To(BeEquivalentTo(12))

		created := clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: 30}, Created: true}
		Expect(w.show(created)).To(Succeed())
		Expect(w.last).To(BeEquivalentTo(12))
	})
})
