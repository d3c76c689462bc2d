package etcdstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// outcome is what a Commit returned.
type outcome struct {
	Revision int64
	Err      error
}

// committing starts a Commit in the background.
func committing(ctx context.Context, s *Store, writes ...migration.Write) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		revision, err := s.Commit(ctx, writes)
		done <- outcome{revision, err}
	}()
	return done
}

func commit(ctx context.Context, s *Store, writes ...migration.Write) int64 {
	GinkgoHelper()
	revision := suite.Must(s.Commit(ctx, writes))
	return revision
}

func raw(key string, guard int64, value string) migration.Write {
	return migration.Write{Key: key, Guard: guard, Raw: []byte(value)}
}

func deletion(key string, guard int64) migration.Write {
	return migration.Write{Key: key, Guard: guard, Delete: true}
}

var _ = Describe("committing", Ordered, func() {
	var store *Store

	BeforeAll(func(ctx SpecContext) { store = openAt(ctx, startEtcd(ctx).URL()) })

	It("creates, changes and deletes, each at its guard", func(ctx SpecContext) {
		created := commit(ctx, store, raw("c/a", 0, "1"))
		Expect(line(get(ctx, store, "c/a"))).To(Equal(fmt.Sprintf("c/a=1@%d", created)))
		changed := commit(ctx, store, raw("c/a", created, "2"))
		Expect(changed).To(Equal(created + 1))
		Expect(line(get(ctx, store, "c/a"))).To(Equal(fmt.Sprintf("c/a=2@%d", changed)))
		deleted := commit(ctx, store, deletion("c/a", changed))
		Expect(deleted).To(Equal(changed + 1))
		Expect(get(ctx, store, "c/a").Exists()).To(BeFalse())
	})

	It("writes an object that it reads back", func(ctx SpecContext) {
		commit(ctx, store, migration.Write{Key: "c/service", Object: service()},
			migration.Write{Key: "c/ip", Object: ipAddress(), APIVersion: "networking.k8s.io/v1beta1"})
		v := get(ctx, store, "c/service")
		Expect(v.Object.(*corev1.Service).Spec).To(Equal(service().Spec))
		Expect(get(ctx, store, "c/ip").APIVersion).To(Equal("networking.k8s.io/v1beta1"))

		By("what was read can be written again, and its resourceVersion is not stored")
		commit(ctx, store, migration.Write{Key: "c/service", Guard: v.ModRevision, Object: v.Object})
		Expect(get(ctx, store, "c/service").Raw).To(Equal(v.Raw))
	})

	It("writes nothing when a guard does not hold", func(ctx SpecContext) {
		there := put(ctx, store, "g/there", "old")
		gone := put(ctx, store, "g/gone", "old")
		now := remove(ctx, store, "g/gone")
		for name, tc := range map[string]struct {
			write migration.Write
			want  string
		}{
			"exists already":  {raw("g/there", 0, "x"), fmt.Sprintf("/registry/g/there: the key was changed by another writer: it is at revision %d, not at 0", there)},
			"was changed":     {raw("g/there", there-1, "x"), fmt.Sprintf("it is at revision %d, not at %d", there, there-1)},
			"was deleted":     {raw("g/gone", gone, "x"), fmt.Sprintf("/registry/g/gone: the key was changed by another writer: it is at revision 0, not at %d", gone)},
			"delete, changed": {deletion("g/there", there-1), fmt.Sprintf("it is at revision %d, not at %d", there, there-1)},
			"delete, gone":    {deletion("g/gone", gone), fmt.Sprintf("it is at revision 0, not at %d", gone)},
		} {
			By(name)
			_, err := store.Commit(ctx, []migration.Write{raw("g/good", 0, "x"), tc.write})
			Expect(err).To(MatchError(migration.ErrConflict))
			Expect(err).To(MatchError(ContainSubstring(tc.want)))
		}
		Expect(revisionOf(ctx, store)).To(Equal(now))
		Expect(get(ctx, store, "g/good").Exists()).To(BeFalse())
	})

	It("takes 128 writes at once", func(ctx SpecContext) {
		before := revisionOf(ctx, store)
		Expect(commit(ctx, store, puts(migration.MaxWrites)...)).To(Equal(before + 1))
		_, err := store.Commit(ctx, puts(migration.MaxWrites))
		Expect(err).To(MatchError(migration.ErrConflict)) // etcd reads all 128 to say why
	})

	It("refuses to write nothing, or an object in a form that it has not", func(ctx SpecContext) {
		before := revisionOf(ctx, store)
		for want, w := range map[string]migration.Write{
			"there is nothing to write": {Key: "r/c"}, "Service cannot be stored as v2": {Key: "r/c", Object: service(), APIVersion: "v2"},
		} {
			_, err := store.Commit(ctx, []migration.Write{raw("r/b", 0, "1"), w})
			Expect(err).To(MatchError("writing to etcd: /registry/r/c: " + want))
		}
		Expect(revisionOf(ctx, store)).To(Equal(before))
	})

	It("passes a refusal of etcd on at once", func(ctx SpecContext) {
		start := time.Now()
		_, err := store.Commit(within(ctx, 30*time.Second), []migration.Write{raw("big", 0, string(make([]byte, 1800<<10)))})
		Expect(err).To(MatchError(And(ContainSubstring("request is too large"), Not(ContainSubstring("not known")))))
		Expect(time.Since(start)).To(BeNumerically("<", attemptTimeout), "it was tried again")
	})

	It("sends nothing when its context has ended already", func(ctx SpecContext) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := store.Commit(ended, []migration.Write{raw("ended", 0, "x")})
		Expect(err).To(MatchError(context.Canceled))
		Expect(err).NotTo(MatchError(ContainSubstring("not known")))
		Expect(get(ctx, store, "ended").Exists()).To(BeFalse())
	})
})

func puts(n int) (writes []migration.Write) {
	for i := range n {
		writes = append(writes, raw(fmt.Sprintf("key-%d", i), 0, "value"))
	}
	return writes
}

type writes = []migration.Write

// loss is a transaction that was lost, or its answer, on an empty etcd: its first revision is 2.
type loss struct {
	old       []string // key=value, written before
	writes    writes
	answer    bool
	meanwhile []string // key=value that another client writes then, or the key alone, which it deletes
	conflict  bool
	wantA     []string // all values that key a has had, if that matters
	wantB     bool     // key b is there
}

func apply(ctx context.Context, s *Store, changes ...string) {
	GinkgoHelper()
	for _, change := range changes {
		if key, value, written := strings.Cut(change, "="); written {
			put(ctx, s, key, value)
		} else {
			remove(ctx, s, key)
		}
	}
}

// Each of these loses the answer to a transaction, or the transaction: what does Commit make of it?
var _ = Describe("a transaction without an answer", func() {
	var (
		direct, store *Store
		p             *proxy
	)

	BeforeEach(func(ctx SpecContext) {
		etcd := startEtcd(ctx)
		direct = openAt(ctx, etcd.URL())
		p = newProxy(etcd.URL())
		store = openAt(ctx, p.URL())
	})

	// loseAnswer commits and loses the answer, after the writes have taken effect.
	loseAnswer := func(ctx context.Context, writes ...migration.Write) (revision int64, done <-chan outcome) {
		GinkgoHelper()
		before := revisionOf(ctx, direct)
		p.mute.Store(true)
		done = committing(within(ctx, time.Minute), store, writes...)
		Eventually(revisionOf).WithArguments(ctx, direct).Should(Equal(before + 1))
		Consistently(done, 100*time.Millisecond).ShouldNot(Receive())
		return before + 1, done
	}

	// loseRequest commits and loses the transaction.
	loseRequest := func(ctx context.Context, writes ...migration.Write) (done <-chan outcome) {
		GinkgoHelper()
		p.deaf.Store(true)
		done = committing(within(ctx, time.Minute), store, writes...)
		Consistently(done, 200*time.Millisecond).ShouldNot(Receive())
		return done
	}

	DescribeTable("is judged by what is there", func(ctx SpecContext, l loss) {
		apply(ctx, direct, l.old...)
		before := revisionOf(ctx, direct)
		var done <-chan outcome
		if l.answer {
			_, done = loseAnswer(ctx, l.writes...)
		} else {
			done = loseRequest(ctx, l.writes...)
		}
		apply(ctx, direct, l.meanwhile...)
		p.Heal()
		if l.conflict {
			Eventually(done, 10*time.Second).Should(Receive(HaveField("Err", MatchError(migration.ErrConflict))))
		} else {
			Eventually(done, 10*time.Second).Should(Receive(Equal(outcome{before + 1, nil})))
		}
		if len(l.wantA) > 0 {
			Expect(history(ctx, direct, "a")).To(Equal(l.wantA))
		}
		Expect(get(ctx, direct, "b").Exists()).To(Equal(l.wantB))
	},
		Entry("done: creation", loss{answer: true, writes: writes{raw("a", 0, "ours"), raw("b", 0, "ours too")},
			wantA: []string{"ours"}, wantB: true}),
		Entry("done: change and deletion", loss{answer: true, old: []string{"a=old", "b=old"}, writes: writes{raw("a", 2, "ours"), deletion("b", 3)},
			wantA: []string{"old", "ours"}}),
		Entry("done: deletion alone", loss{answer: true, old: []string{"a=old", "b=old"}, writes: writes{deletion("a", 2), deletion("b", 3)}}),
		Entry("done, and somebody has changed a key again", loss{answer: true, writes: writes{raw("a", 0, "ours"), raw("b", 0, "ours too")},
			meanwhile: []string{"a=theirs"}, wantA: []string{"ours", "theirs"}, wantB: true}),
		Entry("done, and somebody has changed the only key several times", loss{answer: true, old: []string{"a=old"}, writes: writes{raw("a", 2, "ours")},
			meanwhile: []string{"a=0", "a=1", "a=2"}}),
		Entry("done, and somebody has deleted the other key", loss{answer: true, writes: writes{raw("a", 0, "ours"), raw("b", 0, "ours too")},
			meanwhile: []string{"a"}, wantB: true}),
		// Two writers of the same bytes at one guard cannot be told apart, and need not be.
		Entry("done by somebody else, to the byte", loss{old: []string{"a=old"}, writes: writes{raw("a", 2, "ours")}, meanwhile: []string{"a=ours"}}),
		Entry("done by nobody: it is done now", loss{writes: writes{raw("a", 0, "ours")}, wantA: []string{"ours"}}),
		Entry("not done, and somebody else has taken the key", loss{conflict: true, writes: writes{raw("a", 0, "ours"), raw("b", 0, "ours too")},
			meanwhile: []string{"a=theirs"}, wantA: []string{"theirs"}}),
		Entry("not done, though the key once had that value", loss{conflict: true, old: []string{"a=ours", "a=old"}, writes: writes{raw("a", 3, "ours")},
			meanwhile: []string{"a=theirs"}}),
		Entry("not done, and somebody else has changed a key", loss{conflict: true, old: []string{"a=old", "b=old"},
			writes: writes{raw("a", 2, "ours"), raw("b", 3, "ours too")}, meanwhile: []string{"a=theirs", "a=theirs again", "b=theirs"}, wantB: true}),
		// One key has by chance what we wanted, but the other one proves that it was not us.
		Entry("not done, and somebody else has written the same to one key", loss{conflict: true, old: []string{"b=old"},
			writes: writes{raw("a", 0, "ours"), raw("b", 2, "ours too")}, meanwhile: []string{"a=ours"}, wantA: []string{"ours"}, wantB: true}),
		Entry("not done, and somebody else has deleted one key of two", loss{conflict: true, old: []string{"a=old", "b=old"},
			writes: writes{deletion("a", 2), deletion("b", 3)}, meanwhile: []string{"a", "b=theirs"}, wantB: true}),
	)

	It("was done, but etcd has forgotten so: nobody can tell", func(ctx SpecContext) {
		a := put(ctx, direct, "a", "old")
		_, done := loseAnswer(ctx, raw("a", a, "ours"))
		put(ctx, direct, "a", "theirs")
		compact(ctx, direct, put(ctx, direct, "a", "theirs again"))
		p.Heal()
		var got outcome
		Eventually(done, 10*time.Second).Should(Receive(&got))
		Expect(got.Err).To(MatchError(ContainSubstring("it is not known whether this was written")))
		Expect(got.Err).NotTo(MatchError(migration.ErrConflict))
	})

	It("is left alone when the context ends, and the error does not hide that it may be done", func(ctx SpecContext) {
		p.mute.Store(true)
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := store.Commit(short, []migration.Write{raw("a", 0, "ours")})
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(err).To(MatchError(ContainSubstring("it is not known whether this was written")))
	})
})

var _ = Describe("committing while etcd comes and goes", func() {
	var (
		etcd  *framework.Etcd
		store *Store
	)

	BeforeEach(func(ctx SpecContext) { etcd, store = startStore(ctx) })

	It("says that nothing was written when it never reached etcd", func(ctx SpecContext) {
		Expect(etcd.Kill()).To(Succeed())
		_, err := store.Get(within(ctx, time.Second), "a") // the store knows by now that its connection is gone
		Expect(err).To(HaveOccurred())
		_, err = store.Commit(within(ctx, time.Second), []migration.Write{raw("a", 0, "ours")})
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(err).NotTo(MatchError(ContainSubstring("not known")))
	})

	It("writes once through a frozen etcd, however often it asked", func(ctx SpecContext) {
		a := put(ctx, store, "a", "old")
		store.attemptTimeout = 100 * time.Millisecond
		freeze(ctx, etcd, store)
		done := committing(within(ctx, time.Minute), store, raw("a", a, "ours"))
		Consistently(done, 2*time.Second).ShouldNot(Receive())
		Expect(etcd.Resume()).To(Succeed())
		Eventually(done, 30*time.Second).Should(Receive(Equal(outcome{a + 1, nil})))
		Expect(history(ctx, store, "a")).To(Equal([]string{"old", "ours"}))
	})
})

// history returns all values that a key has had since it was created.
func history(ctx context.Context, s *Store, key string) []string {
	GinkgoHelper()
	answer := suite.Must(s.client.Get(ctx, s.keys.absolute(key)))
	Expect(answer.Kvs).To(HaveLen(1))
	var values []string
	for kv := answer.Kvs[0]; ; kv = answer.Kvs[0] {
		values = append([]string{string(kv.Value)}, values...)
		if kv.Version == 1 {
			return values
		}
		answer = suite.Must(s.client.Get(ctx, s.keys.absolute(key), clientv3.WithRev(kv.ModRevision-1)))
	}
}
