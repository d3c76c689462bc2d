package etcdstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

func TestEtcd(t *testing.T) {
	RegisterFailHandler(Fail)
	klog.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(30 * time.Second) // etcd may wait for a disk that other programs use
	RunSpecs(t, "etcdstore", Label("all"))
}

// startEtcd starts an etcd that ends with the calling node.
func startEtcd(ctx context.Context) *framework.Etcd {
	GinkgoHelper()
	etcd := suite.Must(framework.StartEtcd(ctx, GinkgoT().TempDir()))
	DeferCleanup(func() { Expect(etcd.Kill()).To(Succeed()) })
	return etcd
}

// startStore starts an etcd and opens its store.
func startStore(ctx context.Context) (*framework.Etcd, *Store) {
	GinkgoHelper()
	etcd := startEtcd(ctx)
	return etcd, openAt(ctx, etcd.URL())
}

// freeze pauses etcd and waits until it has noticed: the signal takes its time.
func freeze(ctx context.Context, etcd *framework.Etcd, s *Store) {
	GinkgoHelper()
	Expect(etcd.Pause()).To(Succeed())
	Eventually(func() error {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := s.client.Get(short, "a")
		return err
	}).Should(MatchError(context.DeadlineExceeded))
}

// open opens a store that is closed with the calling node.
func open(ctx context.Context, c Config) *Store {
	GinkgoHelper()
	s := suite.Must(Open(ctx, c))
	DeferCleanup(func() { Expect(s.Close()).To(Succeed()) })
	return s
}

// openAt opens the store of an endpoint with the usual prefix.
func openAt(ctx context.Context, url string) *Store {
	GinkgoHelper()
	return open(ctx, Config{Endpoints: []string{url}})
}

// put writes without a guard, as another writer does, and returns the revision.
func put(ctx context.Context, s *Store, key, value string) int64 {
	GinkgoHelper()
	answer := suite.Must(s.client.Put(ctx, s.keys.absolute(key), value))
	return answer.Header.Revision
}

// remove deletes without a guard and returns the revision.
func remove(ctx context.Context, s *Store, key string) int64 {
	GinkgoHelper()
	answer := suite.Must(s.client.Delete(ctx, s.keys.absolute(key)))
	Expect(answer.Deleted).To(BeEquivalentTo(1))
	return answer.Header.Revision
}

// putMany writes n keys of the folder, named by their number, with a value each.
func putMany(ctx context.Context, s *Store, folder string, n int, value func(i int) string) {
	GinkgoHelper()
	for first := 0; first < n; first += 100 {
		var ops []clientv3.Op
		for i := first; i < min(first+100, n); i++ {
			ops = append(ops, clientv3.OpPut(s.keys.absolute(numbered(folder, i)), value(i)))
		}
		suite.Must(s.client.Txn(ctx).Then(ops...).Commit())
	}
}

func formatted(n int64) string { return strconv.FormatInt(n, 10) }

func numbered(folder string, i int) string { return fmt.Sprintf("%s/%05d", folder, i) }

// revisionOf is that of etcd at this moment.
func revisionOf(ctx context.Context, s *Store) int64 {
	GinkgoHelper()
	answer := suite.Must(s.client.Get(ctx, "any"))
	return answer.Header.Revision
}

// compact makes etcd forget what was before a revision.
func compact(ctx context.Context, s *Store, revision int64) {
	GinkgoHelper()
	suite.Must(s.client.Compact(ctx, revision, clientv3.WithCompactPhysical()))
}

func get(ctx context.Context, s *Store, key string) migration.Value {
	GinkgoHelper()
	v := suite.Must(s.Get(ctx, key))
	return v
}

// line is a value in short: "key=value@modRevision", without a value for a key that does not exist.
func line(v migration.Value) string {
	if !v.Exists() {
		return fmt.Sprintf("%s@%d", v.Key, v.ModRevision)
	}
	return fmt.Sprintf("%s=%s@%d", v.Key, v.Raw, v.ModRevision)
}

// within bounds how long a spec waits for what might hang.
func within(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	DeferCleanup(cancel)
	return ctx
}

// notes is a log in memory.
type notes struct {
	mu    sync.Mutex
	lines []string
}

// logging returns a context whose logger writes into notes.
func logging(ctx context.Context) (context.Context, *notes) {
	n := &notes{}
	logger := funcr.New(func(_, args string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.lines = append(n.lines, args)
	}, funcr.Options{})
	return klog.NewContext(ctx, logr.Logger(logger)), n
}

// Lines returns what has been logged so far.
func (n *notes) Lines() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string{}, n.lines...)
}
