package healthz

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// maxQueued is how long a change may wait for the kernel.
const maxQueued = time.Minute

// Server answers /healthz, /livez and /former. Several goroutines may call it, also before it runs.
type Server struct {
	mode     string
	answered func(path string, code int)

	mu       sync.Mutex
	families map[model.Family]progress
	leaving  bool
	counted  counted
}

type counted struct {
	CountedAt time.Time          `json:"countedAt,omitzero"`
	Addresses map[netip.Addr]int `json:"addresses,omitzero"`
	Reason    string             `json:"reason,omitempty"`
}

// New returns a Server of an agent that serves these families in a mode, "iptables" or "nftables",
// and has programmed nothing. For metrics, answered hears each path, without slash, and status.
func New(families []model.Family, mode string, answered func(path string, code int)) *Server {
	s := &Server{
		mode: mode, answered: answered, families: make(map[model.Family]progress, len(families)), counted: counted{Reason: "nothing has been counted yet"},
	}
	for _, f := range families {
		s.families[f] = progress{}
	}
	return s
}

// Queued records a change that the rules of the family do not have yet. Only the oldest one counts.
func (s *Server) Queued(f model.Family) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.families[f]; p.queued.IsZero() {
		s.families[f] = progress{updated: p.updated, queued: time.Now()}
	}
}

// Updated records that the rules of the family are in the kernel with every change that was queued.
func (s *Server) Updated(f model.Family) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.families[f] = progress{updated: time.Now()}
}

// SetNodeLeaving records whether the node is leaving: /healthz sends load balancers elsewhere then.
func (s *Server) SetNodeLeaving(leaving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = leaving
}

// Counted records how many connections each served former address had at a time, or why that is not
// known. The map must not change afterwards.
func (s *Server) Counted(at time.Time, connections map[netip.Addr]int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted = counted{CountedAt: at.UTC(), Addresses: connections}
	if err != nil {
		s.counted = counted{Reason: err.Error()}
	}
}

// Healthy reports whether the agent does its work: every family was programmed, and nothing waits
// for too long. A leaving node makes no difference.
func (s *Server) Healthy() bool {
	r, _ := s.report(progress.ready)
	return r.Healthy
}

// Run answers at an address as [Serve] does.
func (s *Server) Run(ctx context.Context, address string, failed func(error)) error {
	return Serve(ctx, address, newHTTPServer(s.Handler()), failed)
}

// Handler answers /healthz, /livez and /former, for a server of the caller's.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		r, eligible := s.report(progress.ready)
		r.NodeEligible = &eligible
		s.answer(w, "healthz", r, r.Healthy && eligible)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		r, _ := s.report(progress.alive)
		s.answer(w, "livez", r, r.Healthy)
	})
	mux.HandleFunc("/former", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		answer := s.counted
		s.mu.Unlock()
		code := http.StatusOK
		if answer.Reason != "" {
			code = http.StatusServiceUnavailable
		}
		writeJSON(w, code, answer)
	})
	return mux
}

func (s *Server) answer(w http.ResponseWriter, path string, r report, ok bool) {
	code := http.StatusServiceUnavailable
	if ok {
		code = http.StatusOK
		// Readers once took an old time for a hung proxy, so kube-proxy reports the present when well.
		r.LastUpdated = r.CurrentTime
	}
	s.answered(path, code)
	writeJSON(w, code, r)
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // a client that went away is not an error
}

// report is what /healthz and /livez answer, in kube-proxy's field names and one of ours, Mode.
type report struct {
	// LastUpdated is now while all is well, otherwise the last time that any family was programmed.
	LastUpdated time.Time `json:"lastUpdated"`
	CurrentTime time.Time `json:"currentTime"`
	// NodeEligible is nil in the answers of /livez: a node that is about to leave is alive.
	NodeEligible *bool `json:"nodeEligible,omitempty"`
	// Healthy is about the agent alone; /healthz is 200 only when NodeEligible is true too.
	Healthy bool                    `json:"healthy"`
	Status  map[string]familyReport `json:"status,omitempty"` // by the name of the family
	Mode    string                  `json:"mode,omitempty"`
}

// familyReport is about one family. LastUpdated is the zero time until it has been programmed.
type familyReport struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// progress is how far one family has come. The zero value has seen nothing.
type progress struct {
	updated time.Time
	// queued is when the oldest change came that is not in the kernel yet; zero when there is none.
	queued time.Time
}

// alive is what /livez asks: no change waits for too long. As in kube-proxy, a family that was
// never programmed is starting, not late.
func (p progress) alive(now time.Time) bool {
	return p.updated.IsZero() || p.queued.IsZero() || now.Sub(p.queued) < maxQueued
}

// ready is what /healthz asks: the family was programmed, and is alive.
func (p progress) ready(now time.Time) bool { return !p.updated.IsZero() && p.alive(now) }

// report asks all families, and reports also whether the node stays.
func (s *Server) report(healthy func(progress, time.Time) bool) (r report, eligible bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r = report{Mode: s.mode, CurrentTime: time.Now(), Healthy: true, Status: make(map[string]familyReport, len(s.families))}
	for f, p := range s.families {
		ok := healthy(p, r.CurrentTime)
		r.Status[f.String()] = familyReport{LastUpdated: p.updated, Healthy: ok}
		r.Healthy = r.Healthy && ok
		if p.updated.After(r.LastUpdated) {
			r.LastUpdated = p.updated
		}
	}
	return r, !s.leaving
}

// bindAgainAfter is how long a port that could not be bound is left alone.
var bindAgainAfter = 5 * time.Second

// Serve answers at an address, "0" for none, until ctx ends, then returns nil with nothing left
// open. It tells failed of a port that cannot be bound and tries again: the agent serves Services.
func Serve(ctx context.Context, address string, server *http.Server, failed func(error)) error {
	if address == "0" || address == "" {
		return nil
	}
	defer func() { _ = server.Close() }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	for {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			err = server.Serve(l)
		}
		if ctx.Err() != nil {
			return nil
		}
		failed(fmt.Errorf("listening on %s: %w", address, err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(bindAgainAfter):
		}
	}
}

// newHTTPServer returns a server whose clients can neither dawdle nor send much: probes are short,
// and these ports are open to every client that reaches the node.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
}
