package migration_test

import (
	"bytes"
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
)

// Keys of an API server's storage.
const (
	primaryKey   = storage.Registry + "ranges/serviceips"
	secondaryKey = storage.Registry + "ranges/secondaryserviceips"
	nodePortsKey = storage.Registry + "ranges/servicenodeports"
	addressesKey = storage.Registry + "ipaddresses/"
	rangesKey    = storage.Registry + "servicecidrs/"
	servicesKey  = storage.Registry + "services/specs/"

	// conditionKey is where verify and run tell how far the cluster is.
	conditionKey = rangesKey + "kubernetes"
)

// etcd is the cluster's storage, with what only this suite does to it.
type etcd struct{ storage.Storage }

// restore rewrites what earlier has below a prefix, and removes the keys that came since.
func (s etcd) restore(ctx context.Context, prefix string, earlier storage.Values) {
	GinkgoHelper()
	var back []clientv3.Op
	now := s.Below(ctx, prefix)
	for key, value := range earlier {
		if strings.HasPrefix(key, prefix) && !bytes.Equal(now[key].Raw, value.Raw) {
			back = append(back, clientv3.OpPut(key, string(value.Raw)))
		}
	}
	for key := range now {
		if _, was := earlier[key]; !was {
			back = append(back, clientv3.OpDelete(key))
		}
	}
	for some := range slices.Chunk(back, 100) {
		_, err := s.Client.Txn(ctx).Then(some...).Commit()
		Expect(err).NotTo(HaveOccurred())
	}
}

// happens waits, watching etcd, for the first change of a key, or below it if it ends with a slash,
// and calls act at once. The channel tells that it has; it stays silent if ctx ends before.
func (s etcd) happens(ctx context.Context, key string, act func()) <-chan struct{} {
	options := []clientv3.OpOption{clientv3.WithRev(s.Revision(ctx) + 1)}
	if strings.HasSuffix(key, "/") {
		options = append(options, clientv3.WithPrefix())
	}
	watched, acted := s.Client.Watch(ctx, key, options...), make(chan struct{})
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
