package nfnetlink

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// turnTimeout is how long a write waits for another family's. Turns spare both that iptables-nft
// starts over if a transaction comes between; a stuck program stops the other family only once.
const turnTimeout = 5 * time.Second

// Generations counts our own transactions of nf_tables, to tell them from other programs': the
// kernel counts those of a network namespace together. So all writers of rules on a node share one.
// Make it with [NewGenerations]. Its methods may be called concurrently.
type Generations struct {
	// Timeout is how long a write waits for its turn: five seconds, or set before the first write.
	Timeout time.Duration

	turn  chan struct{} // has an element while a write runs that got its turn in time
	stuck atomic.Bool   // the write that has the turn has had it for longer than Timeout

	mu      sync.Mutex
	own     uint32
	writing int // writes that run
}

// NewGenerations returns one that has counted nothing.
func NewGenerations() *Generations {
	return &Generations{turn: make(chan struct{}, 1), Timeout: turnTimeout}
}

// Foreign counts other programs' transactions, from an arbitrary start. Unknown while we write.
func (g *Generations) Foreign() (n uint32, known bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.writing > 0 {
		return 0, false, nil
	}
	now, err := Generation()
	return now - g.own, true, err
}

// Write runs a write of ours, which returns its transactions. They count as foreign if it fails.
func (g *Generations) Write(write func() (transactions int, err error)) error {
	wait := g.Timeout
	if g.stuck.Load() {
		wait = 0
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { g.stuck.Store(false); <-g.turn }()
	case <-time.After(wait):
		g.stuck.Store(true)
	}
	g.count(1, 0)
	transactions, err := write()
	if err != nil {
		transactions = 0
	}
	g.count(-1, transactions)
	return err
}

func (g *Generations) count(writing, own int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writing += writing
	g.own += uint32(own)
}

// Generation returns the generation of nf_tables, one more with each transaction in the namespace.
func Generation() (n uint32, err error) {
	conn, err := Open()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	err = conn.Get(Request{Subsystem: unix.NFNL_SUBSYS_NFTABLES, Command: unix.NFT_MSG_GETGEN}, func(answer Attrs) {
		n = uint32(answer.Get(unix.NFTA_GEN_ID).Number())
	})
	if err == nil && n == 0 { // a number that no generation has
		err = errors.New("the kernel's answer holds none")
	}
	if err != nil {
		return 0, fmt.Errorf("reading the generation of nf_tables: %w", err)
	}
	return n, nil
}
