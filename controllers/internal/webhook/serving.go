package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"time"
)

// handOver is how long the certificate in use stays after one of another authority has come. In this time cert-controller enters the new
// authority, beside the old one, into the webhook configurations, and the API servers learn of it: whichever of the two we show, before and
// after, is trusted.
const handOver = 2 * time.Second

// serving is the certificate that is shown. The zero value shows none. Its methods may be called at the same time.
type serving struct {
	mu      sync.Mutex
	current *pair
	// next takes over at from; nil if nothing is due.
	next *pair
	from time.Time
}

// offer takes a new certificate into use: at once, or after handOver. One that no client would accept is left alone, and so is one that
// is known. It reports whether p is new and will be used.
func (s *serving) offer(p *pair, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	switch {
	case !p.valid(now), p.sameAs(s.next):
		return false
	case p.sameAs(s.current):
		s.next = nil
		return false
	case s.current.valid(now) && !s.current.authority.Equal(p.authority):
		s.next, s.from = p, now.Add(handOver)
	default:
		s.current, s.next = p, nil
	}
	return true
}

// advance lets next take over when its time has come, or when the one in use has run out.
func (s *serving) advance(now time.Time) {
	if s.next != nil && (!now.Before(s.from) || !s.current.valid(now)) {
		s.current, s.next = s.next, nil
	}
}

// at returns the certificate for a handshake.
func (s *serving) at(now time.Time) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	if s.current == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return &s.current.certificate, nil
}

// authority is the one in use, nil if there is none.
func (s *serving) authority() *x509.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil
	}
	return s.current.authority
}
