package coexistence_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// observer notes every event of the watches that it was given. A write that is undone before anybody lists would
// escape a comparison of two lists.
type observer struct {
	mu   sync.Mutex
	seen []string
}

// observe watches ServiceCIDRs, IPAddresses and Services from now on, until the spec ends.
func observe(ctx context.Context, c *cluster.Cluster) *observer {
	GinkgoHelper()
	o := &observer{}
	networking, core := c.Networking(), c.Client().CoreV1()
	o.follow(ctx, "ServiceCIDR", list(networking.ServiceCIDRs().List), networking.ServiceCIDRs().Watch)
	o.follow(ctx, "IPAddress", list(networking.IPAddresses().List), networking.IPAddresses().Watch)
	o.follow(ctx, "Service", list(core.Services(metav1.NamespaceAll).List), core.Services(metav1.NamespaceAll).Watch)
	return o
}

type lister func(context.Context, metav1.ListOptions) (runtime.Object, error)

func list[T runtime.Object](typed func(context.Context, metav1.ListOptions) (T, error)) lister {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return typed(ctx, options)
	}
}

func (o *observer) follow(
	ctx context.Context, kind string, list lister, watchFrom func(context.Context, metav1.ListOptions) (watch.Interface, error),
) {
	GinkgoHelper()
	now, err := list(ctx, metav1.ListOptions{Limit: 1})
	Expect(err).NotTo(HaveOccurred())
	version, err := meta.NewAccessor().ResourceVersion(now)
	Expect(err).NotTo(HaveOccurred())
	watching, err := watchFrom(ctx, metav1.ListOptions{ResourceVersion: version})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watching.Stop)
	go func() {
		for event := range watching.ResultChan() {
			o.note(kind, event)
		}
	}()
}

func (o *observer) note(kind string, event watch.Event) {
	line := fmt.Sprintf("%s %s", event.Type, kind)
	if object, err := meta.Accessor(event.Object); err == nil {
		line = fmt.Sprintf("%s %s at version %s", line, object.GetName(), object.GetResourceVersion())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, line)
}

// Seen returns what has happened so far.
func (o *observer) Seen() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string{}, o.seen...)
}
