package million

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
)

// Options of Run.
type Options struct {
	// Sizes are numbers of Services, in ascending order.
	Sizes []int
	// Agent is up to how many Services the agent's parts are measured, in minutes.
	Agent int
	// Repeats is of how many single operations one is the average.
	Repeats int
}

// Full are the options of what is written down.
func Full() Options {
	return Options{Sizes: []int{10_000, 100_000, 1_000_000}, Agent: 100_000, Repeats: 500}
}

// Quick are those of a try.
func Quick() Options { return Options{Sizes: []int{1_000, 5_000, 10_000}, Agent: 5_000, Repeats: 100} }

// Part is something that is filled with all Services.
type Part struct {
	Name   string
	Family allocator.Family // 0: both, an address of each for every Service
}

// Filled is what filling a part took. The zero value: that was not measured.
type Filled struct {
	Took  time.Duration
	Bytes int64 // that it keeps
}

// Operation is one that is asked again and again in the filled part.
type Operation struct{ Name string }

// Size is what was measured with one number of Services.
type Size struct {
	Services int
	Filled   []Filled        // by part
	Each     []time.Duration // by operation
}

// Result is what was measured.
type Result struct {
	Options    Options
	Versions   string
	Parts      []Part
	Operations []Operation
	Sizes      []Size
}

// Run measures all parts at all sizes.
func Run(ctx context.Context, o Options, log *progress.Log) (r Result, err error) {
	r = Result{Options: o, Versions: "no API server"}
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // a million would take twice its memory
	for _, n := range o.Sizes {
		m := &measuring{size: Size{Services: n}, repeats: o.Repeats}
		log.Step("%d Services: the address index and the pool", n)
		if err := m.index(ctx); err != nil {
			return r, err
		}
		for _, f := range allocator.Families {
			if n > o.Agent {
				continue
			}
			log.Step("%d Services: the agent, %s", n, f)
			if err := m.agent(ctx, f); err != nil {
				return r, err
			}
		}
		if len(r.Sizes) == 0 {
			r.Parts, r.Operations = m.parts, m.operations
		}
		m.size.Filled = append(m.size.Filled, make([]Filled, len(r.Parts)-len(m.size.Filled))...)
		m.size.Each = append(m.size.Each, make([]time.Duration, len(r.Operations)-len(m.size.Each))...)
		r.Sizes = append(r.Sizes, m.size)
	}
	return r, nil
}

// measuring is one size under way.
type measuring struct {
	size       Size
	repeats    int
	parts      []Part
	operations []Operation
}

// fill notes what filling a part takes. What it keeps must be alive when fill returns.
func (m *measuring) fill(p Part, fill func() error) error {
	before, start := heap(), time.Now()
	err := fill()
	took := time.Since(start)
	m.parts = append(m.parts, p)
	m.size.Filled = append(m.size.Filled, Filled{took, int64(heap()) - int64(before)})
	return err
}

// each notes how long an operation takes on average; which of them it is, it is told.
func (m *measuring) each(name string, operation func(i int)) {
	start := time.Now()
	for i := range m.repeats {
		operation(i)
	}
	m.operations = append(m.operations, Operation{name})
	m.size.Each = append(m.size.Each, time.Since(start)/time.Duration(m.repeats))
}

// leaveOut notes a part and an operation that are not measured at this size: zero.
func (m *measuring) leaveOut(p Part, operation string) {
	m.parts, m.size.Filled = append(m.parts, p), append(m.size.Filled, Filled{})
	m.operations, m.size.Each = append(m.operations, Operation{operation}), append(m.size.Each, 0)
}

// heap is what is in use after all garbage is gone.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
