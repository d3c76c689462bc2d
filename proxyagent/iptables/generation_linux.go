package iptables

import (
	"fmt"
	"sync"
)

// Steps keeps apart what we do to nf_tables and what others do. The kernel counts transactions of the whole network namespace, both families
// together, so the Proxiers of a node share one. Writes of ours wait for each other. With iptables-legacy it only serialises: the xtables
// lock would do so anyway. The zero value is ready.
type Steps struct {
	mu  sync.Mutex
	own uint32
}

// foreign returns how many transactions others have made, from an arbitrary beginning.
func (s *Steps) foreign() (fingerprint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read()
}

func (s *Steps) read() (fingerprint, error) {
	f, err := generation()
	f.steps -= s.own
	return f, err
}

// write runs a write of ours that takes a number of transactions when it succeeds. One that fails counts as somebody else's, because nobody
// knows how far it came.
func (s *Steps) write(transactions int, write func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := write(); err != nil {
		return fmt.Errorf("writing rules: %w", err)
	}
	s.own += uint32(transactions)
	return nil
}
