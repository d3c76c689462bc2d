package healthz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// bindAgainAfter is how long a port that could not be bound is left alone.
const bindAgainAfter = 5 * time.Second

// Options of a Server.
type Options struct {
	// BindAddress is host:port; a host that is empty or unspecified stands for all addresses of both families.
	BindAddress string
	// MaxQueued is how long a change may wait for the kernel; 60 s when zero.
	MaxQueued time.Duration
	// Families are those that the agent serves. Without any there is nothing to wait for, and the agent is healthy.
	Families []model.Family
	// Clock is the real one when nil.
	Clock clock.Clock
	// Failed hears of every failure to bind or to serve. It may be nil.
	Failed func(error)
	// Answered hears the path, without its slash, and the status code of each answer: for metrics. It may be nil.
	Answered func(path string, code int)
}

// Server answers /healthz and /livez. Its methods may be called by several goroutines, before and while it runs.
type Server struct {
	o Options

	mu       sync.Mutex
	families map[model.Family]progress
	leaving  bool
}

// New returns a Server of an agent that has programmed nothing yet. It listens once it runs.
func New(o Options) *Server {
	if o.MaxQueued == 0 {
		o.MaxQueued = time.Minute
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s := &Server{o: o, families: make(map[model.Family]progress, len(o.Families))}
	for _, f := range o.Families {
		s.families[f] = progress{}
	}
	return s
}

// Queued records that a change came which the rules of the family do not have yet. Only the oldest one counts.
func (s *Server) Queued(f model.Family) {
	s.change(f, func(p *progress) {
		if p.queued.IsZero() {
			p.queued = s.o.Clock.Now()
		}
	})
}

// Updated records that the rules of the family are in the kernel with every change that was queued.
func (s *Server) Updated(f model.Family) {
	s.change(f, func(p *progress) { *p = progress{updated: s.o.Clock.Now()} })
}

func (s *Server) change(f model.Family, change func(*progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.families[f]
	change(&p)
	s.families[f] = p
}

// SetNodeLeaving records whether the node is about to leave the cluster: /healthz then tells load balancers to go elsewhere.
func (s *Server) SetNodeLeaving(leaving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = leaving
}

// Healthy reports whether the agent does its work: every family was programmed, and nothing waits for too long. A leaving node
// makes no difference.
func (s *Server) Healthy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ready(s.families, s.o.Clock.Now(), s.o.MaxQueued).Healthy
}

// Run listens and answers until the context ends; then it returns nil, with nothing left open. A port that cannot be bound is reported
// through Options.Failed and tried again.
func (s *Server) Run(ctx context.Context) error {
	for {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if s.o.Failed != nil {
			s.o.Failed(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.o.Clock.After(bindAgainAfter):
		}
	}
}

// serve returns when the context ends or the server fails, and not before everything that it started has ended.
func (s *Server) serve(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.o.BindAddress)
	if err != nil {
		return fmt.Errorf("listening on %s for health probes: %w", s.o.BindAddress, err)
	}
	server := newHTTPServer(s.Handler())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err = <-served:
		return errors.Join(fmt.Errorf("answering health probes on %s: %w", s.o.BindAddress, err), server.Close())
	case <-ctx.Done():
		err = server.Close()
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	}
}

// Handler answers /healthz and /livez, for a server of the caller's.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", s.healthz)
	mux.HandleFunc("/livez", s.livez)
	return mux
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	now, eligible := s.o.Clock.Now(), !s.leaving
	r := ready(s.families, now, s.o.MaxQueued)
	s.mu.Unlock()
	r.NodeEligible = &eligible
	s.answer(w, "healthz", r, r.Healthy && eligible)
}

func (s *Server) livez(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	r := alive(s.families, s.o.Clock.Now(), s.o.MaxQueued)
	s.mu.Unlock()
	s.answer(w, "livez", r, r.Healthy)
}

func (s *Server) answer(w http.ResponseWriter, path string, r Report, ok bool) {
	code := http.StatusServiceUnavailable
	if ok {
		code = http.StatusOK
		// Readers of this field once took an old time for a hung proxy, so kube-proxy reports the present while all is well.
		r.LastUpdated = r.CurrentTime
	}
	if s.o.Answered != nil {
		s.o.Answered(path, code)
	}
	setHeaders(w)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(r) // a client that went away is not an error
}

func setHeaders(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// Report is what /healthz and /livez answer, with the field names of kube-proxy.
type Report struct {
	// LastUpdated is now while all is well, otherwise the last moment at which any family was programmed.
	LastUpdated time.Time `json:"lastUpdated"`
	CurrentTime time.Time `json:"currentTime"`
	// NodeEligible is nil in the answers of /livez: a node that is about to leave is alive.
	NodeEligible *bool `json:"nodeEligible,omitempty"`
	// Healthy is about the agent alone; /healthz is 200 only when NodeEligible is true too.
	Healthy bool `json:"healthy"`
	// Status is the same for each family, by its name.
	Status map[string]FamilyReport `json:"status,omitempty"`
}

// FamilyReport is the part of a Report about one family. LastUpdated is the zero time until it has been programmed.
type FamilyReport struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// progress is how far one family has come. The zero value has seen nothing.
type progress struct {
	updated time.Time
	// queued is when the oldest change came that is not in the kernel yet; zero when there is none.
	queued time.Time
}

// late reports whether a change waits for longer than it may. As in kube-proxy, a family that was never programmed is starting, not late.
func (p progress) late(now time.Time, maxQueued time.Duration) bool {
	return !p.updated.IsZero() && !p.queued.IsZero() && now.Sub(p.queued) >= maxQueued
}

// alive is the answer of /livez: nothing waits for too long.
func alive(families map[model.Family]progress, now time.Time, maxQueued time.Duration) Report {
	return report(families, now, func(p progress) bool { return !p.late(now, maxQueued) })
}

// ready is the answer of /healthz without a word about the node: everything was programmed once, and nothing waits for too long.
func ready(families map[model.Family]progress, now time.Time, maxQueued time.Duration) Report {
	return report(families, now, func(p progress) bool { return !p.updated.IsZero() && !p.late(now, maxQueued) })
}

func report(families map[model.Family]progress, now time.Time, healthy func(progress) bool) Report {
	r := Report{CurrentTime: now, Healthy: true, Status: make(map[string]FamilyReport, len(families))}
	for f, p := range families {
		ok := healthy(p)
		r.Status[f.String()] = FamilyReport{LastUpdated: p.updated, Healthy: ok}
		r.Healthy = r.Healthy && ok
		if p.updated.After(r.LastUpdated) {
			r.LastUpdated = p.updated
		}
	}
	return r
}
