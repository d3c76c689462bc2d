package migration_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Keys of an API server's storage.
const (
	registry     = "/registry/"
	primaryKey   = registry + "ranges/serviceips"
	secondaryKey = registry + "ranges/secondaryserviceips"
	nodePortsKey = registry + "ranges/servicenodeports"
	addressesKey = registry + "ipaddresses/"
	rangesKey    = registry + "servicecidrs/"
	servicesKey  = registry + "services/specs/"

	// conditionKey is where verify and run tell how far the cluster is.
	conditionKey = rangesKey + "kubernetes"
)

// serversBusiness are keys that a living API server writes unasked.
var serversBusiness = []string{
	registry + "leases/kube-system/",
	registry + "masterleases/",
	registry + "peerserverleases/",
	registry + "events/",
	registry + "flowschemas/",
	registry + "prioritylevelconfigurations/",
	registry + "apiregistration.k8s.io/",
	registry + "clusterroles/", registry + "clusterrolebindings/", registry + "roles/", registry + "rolebindings/", // at its start
	"compact_rev_key",
}

// storage is an etcd, read and written without an API server.
type storage struct{ client *clientv3.Client }

// openStorage connects until the calling node ends.
func openStorage(etcd *framework.Etcd) storage {
	GinkgoHelper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{etcd.URL()}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second, BackoffWaitBetween: 20 * time.Millisecond,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(client.Close)
	return storage{client}
}

// stored is what etcd has for a key; its zero value is a key that does not exist.
type stored struct {
	raw      []byte
	revision int64 // of its last change
	version  int64 // number of writes since it was created
}

func (s storage) get(ctx context.Context, key string) stored {
	GinkgoHelper()
	got, err := s.client.Get(ctx, key)
	Expect(err).NotTo(HaveOccurred())
	if len(got.Kvs) == 0 {
		return stored{}
	}
	return stored{raw: got.Kvs[0].Value, revision: got.Kvs[0].ModRevision, version: got.Kvs[0].Version}
}

func (s storage) put(ctx context.Context, key string, raw []byte) {
	GinkgoHelper()
	_, err := s.client.Put(ctx, key, string(raw))
	Expect(err).NotTo(HaveOccurred())
}

func (s storage) remove(ctx context.Context, key string) {
	GinkgoHelper()
	_, err := s.client.Delete(ctx, key)
	Expect(err).NotTo(HaveOccurred())
}

func (s storage) removeBelow(ctx context.Context, prefix string) {
	GinkgoHelper()
	_, err := s.client.Delete(ctx, prefix, clientv3.WithPrefix())
	Expect(err).NotTo(HaveOccurred())
}

// restore rewrites what earlier has below a prefix, and removes the keys that came since.
func (s storage) restore(ctx context.Context, prefix string, earlier snapshot) {
	GinkgoHelper()
	var back []clientv3.Op
	now := s.below(ctx, prefix)
	for key, value := range earlier {
		if strings.HasPrefix(key, prefix) && !bytes.Equal(now[key].raw, value.raw) {
			back = append(back, clientv3.OpPut(key, string(value.raw)))
		}
	}
	for key := range now {
		if _, was := earlier[key]; !was {
			back = append(back, clientv3.OpDelete(key))
		}
	}
	for some := range slices.Chunk(back, 100) {
		_, err := s.client.Txn(ctx).Then(some...).Commit()
		Expect(err).NotTo(HaveOccurred())
	}
}

// revision is that of the last write of any client.
func (s storage) revision(ctx context.Context) int64 {
	GinkgoHelper()
	got, err := s.client.Get(ctx, "nothing", clientv3.WithCountOnly())
	Expect(err).NotTo(HaveOccurred())
	return got.Header.Revision
}

// count is how many keys there are below a prefix.
func (s storage) count(ctx context.Context, prefix string) int {
	GinkgoHelper()
	got, err := s.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	Expect(err).NotTo(HaveOccurred())
	return int(got.Count)
}

// snapshot is every key with its value, all at one revision.
type snapshot map[string]stored

func (s storage) everything(ctx context.Context) snapshot {
	GinkgoHelper()
	return s.below(ctx, "")
}

func (s storage) below(ctx context.Context, prefix string) snapshot {
	GinkgoHelper()
	got, err := s.client.Get(ctx, prefix, clientv3.WithPrefix())
	Expect(err).NotTo(HaveOccurred())
	all := snapshot{}
	for _, kv := range got.Kvs {
		all[string(kv.Key)] = stored{raw: kv.Value, revision: kv.ModRevision, version: kv.Version}
	}
	return all
}

// changes says which keys have been written since, even with the same value. It leaves out what API
// servers write unasked.
func (s snapshot) changes(later snapshot) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		switch now, there := later[key]; {
		case ofServers(key):
		case !there:
			all = append(all, key+" is gone")
		case now.revision != s[key].revision:
			all = append(all, fmt.Sprintf("%s was written: %q -> %q", key, s[key].raw, now.raw))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(later)) {
		if _, was := s[key]; !was && !ofServers(key) {
			all = append(all, key+" is new")
		}
	}
	return all
}

func ofServers(key string) bool {
	return slices.ContainsFunc(serversBusiness, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// happens waits, watching etcd, for the first change of a key, or below it if it ends with a slash,
// and calls act at once. The channel tells that it has; it stays silent if ctx ends before.
func (s storage) happens(ctx context.Context, key string, act func()) <-chan struct{} {
	options := []clientv3.OpOption{clientv3.WithRev(s.revision(ctx) + 1)}
	if strings.HasSuffix(key, "/") {
		options = append(options, clientv3.WithPrefix())
	}
	watched, acted := s.client.Watch(ctx, key, options...), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		for answer := range watched {
			if len(answer.Events) > 0 {
				act()
				close(acted)
				return
			}
		}
	}()
	return acted
}
