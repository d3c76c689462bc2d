package etcdstore

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

var _ = Describe("reading", Ordered, func() {
	var (
		etcd  *framework.Etcd
		store *Store
	)

	BeforeAll(func(ctx SpecContext) { etcd, store = startStore(ctx) })

	It("gets a key in all its forms", func(ctx SpecContext) {
		created := put(ctx, store, "get/a", "1")
		changed := put(ctx, store, "get/a", "2")
		v := get(ctx, store, "get/a")
		Expect(v).To(And(HaveField("Key", "get/a"), HaveField("Raw", []byte("2")),
			HaveField("CreateRevision", created), HaveField("ModRevision", changed)))
		Expect(v.Object).To(BeNil())
		Expect(v.Err).To(MatchError(ContainSubstring("neither protobuf nor JSON")))

		By("its absolute name")
		Expect(get(ctx, store, "/registry/get/a")).To(Equal(v))

		By("an object, whose resourceVersion is its revision")
		written := put(ctx, store, "get/service", string(must(encode(service(), ""))))
		v = get(ctx, store, "get/service")
		want := service()
		want.ResourceVersion = formatted(written)
		Expect(v).To(And(HaveField("Object", want), HaveField("APIVersion", "v1"), HaveField("Err", BeNil())))

		By("an empty value, which exists")
		put(ctx, store, "get/empty", "")
		v = get(ctx, store, "get/empty")
		Expect(v.Exists()).To(BeTrue())
		Expect(v.Err).To(MatchError("the value is empty"))

		By("none")
		Expect(get(ctx, store, "get/none")).To(Equal(migration.Value{Key: "get/none"}))
		remove(ctx, store, "get/a")
		Expect(get(ctx, store, "get/a")).To(Equal(migration.Value{Key: "get/a"}))
	})

	It("lists a folder and not its neighbours", func(ctx SpecContext) {
		put(ctx, store, "folder", "the folder itself")
		put(ctx, store, "folder/a", "1")
		put(ctx, store, "folder/b/c", "2")
		put(ctx, store, "folder2/a", "3")
		put(ctx, store, "folder-b", "4")
		Expect(listed(ctx, store, "folder", 0)).To(Equal([]string{"folder/a=1", "folder/b/c=2"}))
		Expect(listed(ctx, store, "folder/", 0)).To(Equal([]string{"folder/a=1", "folder/b/c=2"}))
		Expect(listed(ctx, store, "/registry/folder", 0)).To(Equal([]string{"folder/a=1", "folder/b/c=2"}))
		Expect(listed(ctx, store, "nothing", 0)).To(BeEmpty())
	})

	// Each page is asked for after a writer has changed, deleted and added keys on it.
	It("lists 1,500 keys at one revision while they change", func(ctx SpecContext) {
		putMany(ctx, store, "many", 1500, func(int) string { return "old" })
		before, visited := revisionOf(ctx, store), 0
		at := suite.Must(store.List(ctx, "many", 0, func(v migration.Value) error {
			Expect(v.Key).To(Equal(numbered("many", visited)))
			Expect(string(v.Raw)).To(Equal("old"))
			if visited++; visited == 1 || visited == 1+pageSize {
				put(ctx, store, numbered("many", visited+700), "new")
				put(ctx, store, numbered("many", visited+700)+"-added", "new")
				remove(ctx, store, numbered("many", visited+900))
				put(ctx, store, "many/99999", "new")
			}
			return nil
		}))
		Expect(visited).To(Equal(1500))
		Expect(at).To(Equal(before))

		By("the changes are there afterwards, and not at the revision before them")
		Expect(listed(ctx, store, "many", 0)).To(And(HaveLen(1500-2+2+1), ContainElement("many/99999=new")))
		Expect(listed(ctx, store, "many", before)).To(And(HaveLen(1500), HaveEach(HaveSuffix("=old"))))
	})

	It("says when a revision is forgotten, or was never", func(ctx SpecContext) {
		old := put(ctx, store, "history/a", "1")
		now := put(ctx, store, "history/a", "2")
		compact(ctx, store, now)
		nobody := func(migration.Value) error { panic("there is nothing to visit") }
		_, err := store.List(ctx, "history", old, nobody)
		Expect(err).To(MatchError(migration.ErrCompacted))
		Expect(err).To(MatchError(ContainSubstring("listing /registry/history/")))
		_, err = store.List(ctx, "history", now+1000, nobody)
		Expect(err).To(MatchError(ContainSubstring("future revision")))
	})

	It("asks in vain after Close", func(ctx SpecContext) {
		closed := suite.Must(Open(ctx, Config{Endpoints: []string{etcd.URL()}}))
		Expect(closed.Close()).To(Succeed())
		_, err := closed.Get(within(ctx, time.Minute), "get/a")
		Expect(err).To(MatchError(ContainSubstring("closed")))
		Expect(closed.Watch(within(ctx, time.Minute), "get", 0, nil)).To(MatchError(ContainSubstring("closed")))
		_, err = closed.Commit(within(ctx, time.Minute), puts(1))
		Expect(err).To(MatchError(ContainSubstring("closed")))
	})
})

var _ = Describe("reading from an etcd that comes and goes", func() {
	var (
		etcd  *framework.Etcd
		store *Store
	)

	BeforeEach(func(ctx SpecContext) {
		etcd, store = startStore(ctx)
		put(ctx, store, "a", "1")
	})

	It("waits, and logs once whom it waits for", func(ctx SpecContext) {
		Expect(etcd.Kill()).To(Succeed())
		logged, notes := logging(within(ctx, time.Minute))
		answers := make(chan string, 3)
		for range cap(answers) {
			go func() {
				defer GinkgoRecover()
				answers <- line(get(logged, store, "a"))
			}()
		}
		Eventually(notes.Lines).Should(HaveLen(1))
		Consistently(notes.Lines, time.Second).Should(HaveLen(1))
		Expect(notes.Lines()[0]).To(And(ContainSubstring("waiting for etcd"), ContainSubstring(etcd.URL()),
			ContainSubstring("reading /registry/a"), ContainSubstring("because")))
		Expect(answers).To(BeEmpty())

		Expect(etcd.Start(ctx)).To(Succeed())
		for range cap(answers) {
			Eventually(answers, 10*time.Second).Should(Receive(Equal("a=1@2")))
		}
		Expect(notes.Lines()).To(HaveLen(2))
		Expect(notes.Lines()[1]).To(ContainSubstring("etcd answers again"))
	})

	It("waits no longer than its context", func(ctx SpecContext) {
		Expect(etcd.Kill()).To(Succeed())
		short := within(ctx, 5*time.Second) // enough for a first attempt on a machine that stalls
		_, err := store.Get(short, "a")
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(err).To(MatchError(And(ContainSubstring("reading /registry/a"), ContainSubstring("connection refused"))))
		_, err = store.List(short, "", 0, nil)
		Expect(err).To(MatchError(context.DeadlineExceeded))
	})
})

// listed returns what List visits, as "key=value".
func listed(ctx context.Context, s *Store, folder string, at int64) []string {
	GinkgoHelper()
	var all, keys []string
	suite.Must(s.List(ctx, folder, at, func(v migration.Value) error {
		all, keys = append(all, v.Key+"="+string(v.Raw)), append(keys, s.keys.absolute(v.Key))
		return nil
	}))
	Expect(slices.IsSorted(keys)).To(BeTrue())
	return all
}
