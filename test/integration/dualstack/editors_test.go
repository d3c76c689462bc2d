package dualstack_test

import (
	"context"
	"fmt"
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// editors change labels and selectors of Services all the time. Each Service has one editor, so
// that its last accepted edit is what must be there.
type editors struct {
	c      *cluster.Cluster
	taken  []map[string]int // by editor: the number of the last edit of each Service
	ending context.CancelFunc
	group  errgroup.Group
}

// edit starts n editors of these Services.
func edit(ctx context.Context, c *cluster.Cluster, n int, names []string) *editors {
	e := &editors{c: c, taken: make([]map[string]int, n)}
	ctx, e.ending = context.WithCancel(ctx)
	for i := range n {
		e.taken[i] = map[string]int{}
		e.group.Go(func() error {
			for edits := 1; ; edits++ {
				for at := i; at < len(names); at += n {
					if ctx.Err() != nil {
						return nil
					}
					if err := e.one(names[at], edits); err != nil {
						return fmt.Errorf("editing Service %s: %w", names[at], err)
					}
					e.taken[i][names[at]] = edits
				}
			}
		})
	}
	return e
}

// one writes an edit's number: into a label by an update as controllers do, and into the selector
// by a patch as kubectl does. It finishes what it began.
func (e *editors) one(name string, number int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	services := e.c.Client().CoreV1().Services(cluster.Namespace)
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		s, err := services.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels["edit"] = fmt.Sprint(number)
		_, err = services.Update(ctx, s, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	_, err := services.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"selector":{"edit":"%d"}}}`, number), metav1.PatchOptions{})
	return err
}

// end waits for the last edits and returns the number of the last one of each Service.
func (e *editors) end() map[string]int {
	GinkgoHelper()
	e.ending()
	Expect(e.group.Wait()).To(Succeed())
	all := map[string]int{}
	for _, some := range e.taken {
		maps.Copy(all, some)
	}
	return all
}
