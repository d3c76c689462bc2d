package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/history"
	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
)

const (
	// together is how long changes of one ConfigMap are gathered.
	together = 2 * time.Second
	// pace is the pause between two writes. A ConfigMap has 128 KiB at most, and so has a second.
	pace = time.Second
	// longestPause is how long a ConfigMap waits that fails again and again.
	longestPause = time.Minute
	// atEnd is how long a replica that ends takes to write what is not written.
	atEnd = 5 * time.Second
)

// page is what is known of a ConfigMap.
type page struct {
	// read: what was written by former leaders is in the ledger.
	read bool
	// version is the one that a write replaces; empty where there is no ConfigMap.
	version string
	// pause is how long it waits after it failed, again until when: one that an admin has made
	// immutable, or that no role names, keeps no other one waiting.
	pause time.Duration
	again time.Time
}

// fails has a page wait, ever longer.
func (p *page) fails(now time.Time) {
	p.read = false // another client may have written or deleted it
	p.pause = min(max(2*p.pause, pace), longestPause)
	p.again = now.Add(p.pause)
}

// write writes what changes until ctx ends, and then what is left.
func (r *Recorder) write(ctx context.Context) {
	for ctx.Err() == nil {
		did, err := r.step(ctx, r.Clock.Now().Add(-together))
		switch {
		case err != nil && ctx.Err() == nil:
			r.log.log.Error(err, "The history of addresses could not be written; it is tried again")
			metrics.HistoryWrites.WithLabelValues("failed").Inc()
		case did == readPage: // all of them at once
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
	r.finish(context.WithoutCancel(ctx))
}

// finish writes what is left, without pauses: there are 64 ConfigMaps at most. What fails here the
// next leader has seen, or tells as unseen.
func (r *Recorder) finish(ctx context.Context) {
	ctx, end := context.WithTimeout(ctx, atEnd)
	defer end()
	for {
		did, err := r.step(ctx, r.Clock.Now())
		if did == nothing || err != nil && ctx.Err() != nil {
			return
		}
	}
}

// done is what a step has done.
type done int

const (
	nothing done = iota
	readPage
	wrotePage
)

// step reads a ConfigMap that was not read, or writes the one that waits longest, if that is since
// before a time.
func (r *Recorder) step(ctx context.Context, before time.Time) (done, error) {
	now := r.Clock.Now()
	for shard := range r.pages {
		p := &r.pages[shard]
		if p.read || now.Before(p.again) {
			continue
		}
		err := r.readPage(ctx, shard)
		if err != nil {
			p.fails(now)
		}
		return readPage, err
	}
	r.mu.Lock()
	shard, since := r.ledger.Due(func(shard int) bool { return r.pages[shard].read })
	if shard < 0 || since.After(before) {
		r.mu.Unlock()
		return nothing, nil
	}
	content := r.ledger.Page(shard, now)
	r.ledger.Written(shard)
	r.mu.Unlock()

	err := r.writePage(ctx, shard, content)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ledger.Touch(shard, since)
		r.pages[shard].fails(now)
	}
	return wrotePage, err
}

func (r *Recorder) readPage(ctx context.Context, shard int) error {
	name := types.NamespacedName{Namespace: r.Namespace, Name: history.NameOf(shard)}
	o, err := objects.Get(ctx, r.Live, name, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	now := page{read: true, pause: r.pages[shard].pause} // until a write goes through
	var content history.Page
	if o != nil {
		now.version = o.ResourceVersion
		if content, err = history.ReadPage(o.Data); err != nil {
			r.log.log.Error(err, "A ConfigMap of the history was changed by another client; what cannot be read is dropped", "name", name.Name)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger.Merge(shard, content, r.Clock.Now())
	r.pages[shard] = now
	return nil
}

// writePage replaces the version that was read, or written last.
func (r *Recorder) writePage(ctx context.Context, shard int, content history.Page) error {
	o := corev1ac.ConfigMap(history.NameOf(shard), r.Namespace).WithData(content.Data())
	if version := r.pages[shard].version; version != "" {
		o.WithResourceVersion(version)
	}
	if err := r.Client.Apply(ctx, o, client.FieldOwner(v1alpha1.ManagerHistory), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", r.Namespace, history.NameOf(shard), err)
	}
	if o.ResourceVersion == nil {
		return errors.New("the API server does not say which version it has written")
	}
	r.pages[shard].version, r.pages[shard].pause = *o.ResourceVersion, 0
	metrics.HistoryWrites.WithLabelValues("written").Inc()
	return nil
}
