package hostile_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// sightings are when a client of the API server saw the versions of the Service moving and of its
// EndpointSlices.
type sightings struct{ times sync.Map } // version -> time.Time

// watch begins to watch both, until the calling Ginkgo node ends.
func (env *fixture) watch() *sightings {
	GinkgoHelper()
	s := &sightings{}
	ctx, end := context.WithCancel(context.Background())
	DeferCleanup(end)
	services := suite.Must(env.Services().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + env.moving.Name}))
	slices := suite.Must(env.Slices().Watch(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + env.moving.Name}))
	for _, one := range []watch.Interface{services, slices} {
		go func() {
			for event := range one.ResultChan() {
				if object, ok := event.Object.(metav1.Object); ok {
					s.times.Store(object.GetResourceVersion(), time.Now())
				}
			}
		}()
	}
	return s
}

// at is when a version of an object was seen.
func (s *sightings) at(object metav1.Object) time.Time {
	GinkgoHelper()
	var when any
	Eventually(func() (seen bool) {
		when, seen = s.times.Load(object.GetResourceVersion())
		return seen
	}).WithTimeout(environment.Soon).Should(BeTrue(), "the watch does not tell of %s", object.GetName())
	return when.(time.Time)
}

// health asks for /healthz again and again until it is stopped.
type health struct {
	end    context.CancelFunc
	done   sync.WaitGroup
	asked  int
	failed []string
}

func (env *fixture) watchHealth() *health {
	ctx, end := context.WithCancel(context.Background())
	h := &health{end: end}
	start := time.Now()
	h.done.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			if err := env.Agent.Healthy(ctx, "/healthz"); err != nil && ctx.Err() == nil {
				h.failed = append(h.failed, fmt.Sprintf("after %s: %v", round(time.Since(start)), err))
			}
			h.asked++
		}
	})
	DeferCleanup(h.stop)
	return h
}

func (h *health) stop() {
	h.end()
	h.done.Wait()
}

// wasFine ends it and expects that all answers were 200.
func (h *health) wasFine() {
	GinkgoHelper()
	h.stop()
	Expect(h.asked).To(BeNumerically(">", 0))
	Expect(h.failed).To(BeEmpty(), "/healthz")
}
