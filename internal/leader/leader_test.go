package leader

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/clusterip-operator/clusterip-operator/internal/webhook"
)

// lease is a Lease of an election without an API server.
type lease struct {
	resourcelock.Interface
	identity string
	record   resourcelock.LeaderElectionRecord
	err      error
}

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &l.record, nil, l.err
}
func (l *lease) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.record = r
	return l.err
}
func (l *lease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.record = r
	return l.err
}
func (l *lease) Identity() string { return l.identity }

// The Lease tells every replica but its holder where the holder is.
func TestLockTellsWhoLeads(t *testing.T) {
	ctx := t.Context()
	held := &lease{identity: "me@10.0.0.1:9443"}
	l := &Lock{Interface: held}
	expect := func(what, address string, known bool) {
		t.Helper()
		if l.Address() != address || l.Known() != known {
			t.Errorf("%s: address %q, known: %v; want %q, %v", what, l.Address(), l.Known(), address, known)
		}
	}
	record := func(holder string) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: holder}
	}
	expect("before the election", "", false)
	held.err = errors.New("the API server is away")
	_, _, _ = l.Get(ctx)
	expect("the Lease could not be read", "", false)
	held.err = nil
	for holder, address := range map[string]string{
		"other_x7k2p@10.0.0.2:9443": "10.0.0.2:9443", "other_x7k2p@[fd00::2]:9443": "[fd00::2]:9443", "other_x7k2p@": "", "": "", "me@10.0.0.1:9443": "",
	} {
		held.record = record(holder)
		_, _, _ = l.Get(ctx)
		expect("held by "+holder, address, true)
	}
	_ = l.Create(ctx, record("me@10.0.0.1:9443"))
	expect("created by this process", "", true)
	held.err = errors.New("conflict")
	_ = l.Update(ctx, record("other@10.0.0.2:9443"))
	expect("an update that failed", "", true)
	held.err = nil
	_ = l.Update(ctx, record("other@10.0.0.2:9443"))
	expect("an update", "10.0.0.2:9443", true)
}

// serve starts a leader and returns a client that asks it.
func serve(t *testing.T, handler http.Handler) *Client {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	held := &lease{identity: "me@"}
	held.record.HolderIdentity = "leader@" + strings.TrimPrefix(server.URL, "https://")
	l := &Lock{Interface: held, reader: held}
	_, _, _ = l.Get(t.Context())
	return NewClient(l, "/as-leader", func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &server.TLS.Certificates[0], nil })
}

// allowing answers what it is asked, after some time.
func allowing(after time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.URL.Path != "/as-leader" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		time.Sleep(after)
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}})
	})
}

// answering answers all the same.
func answering(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

func request() *admissionv1.AdmissionRequest { return &admissionv1.AdmissionRequest{UID: "u"} }

func TestLeaderAnswers(t *testing.T) {
	for name, handler := range map[string]http.Handler{
		"at once":                               Promptly(allowing(0)),
		"it takes long, and says that it lives": Promptly(allowing(answerWithin + 200*time.Millisecond)),
		"behind writers that count":             counting(Promptly(allowing(0))),
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, handler)
			for range 2 { // on a connection of its own, and on the same once more
				got, ok := c.Review(t.Context(), request())
				if !ok || got.UID != "u" || !got.Allowed {
					t.Fatalf("%v: %+v", ok, got)
				}
			}
		})
	}
}

// counting is a handler behind a writer that counts status codes, as metrics are.
func counting(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(&counter{ResponseWriter: w}, r) })
}

type counter struct {
	http.ResponseWriter
	code int
}

func (c *counter) WriteHeader(code int) {
	if c.code != 0 {
		panic("a second status code")
	}
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// A leader that does not answer costs a request a second at most, and then one request in a second.
func TestLeaderDoesNotAnswer(t *testing.T) {
	for name, handler := range map[string]http.Handler{
		"it is silent":        allowing(answerWithin + 200*time.Millisecond),
		"it refuses":          http.NotFoundHandler(),
		"it answers nonsense": answering("{}"),
		"it cannot decide":    answering(`{"response": {"allowed": true, "status": {"code": 503, "message": "nothing is read yet"}}}`),
		"it breaks off":       http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1); handler.ServeHTTP(w, r) }))
			for range 20 {
				if got, ok := c.Review(t.Context(), request()); ok {
					t.Fatalf("the answer is %+v", got)
				}
				c.suspected.Load().until = time.Now().Add(askAgainAfter) // the second begins anew, for the machine may stall
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("it was asked %d times, want once", n)
			}
			again, leader := time.Now().Add(2*askAgainAfter), c.lock.Address()
			_, first := c.mayAsk(leader, again)
			if _, second := c.mayAsk(leader, again); !first || second {
				t.Error("later it is asked by one request, and by one alone")
			}
		})
	}
}

// A caller that hangs up, or whose time is up, says nothing about the leader: the next request asks
// it. That holds for the one request that tries a suspected leader, too.
func TestCallerHangsUp(t *testing.T) {
	ends := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"the caller hangs up": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		},
		"its time is up": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
	}
	for name, end := range ends {
		for suspected, before := range map[string]time.Duration{"trusted": 0, "suspected until a moment ago": time.Millisecond} {
			t.Run(name+", the leader is "+suspected, func(t *testing.T) {
				var stands atomic.Bool // the leader waits until the follower closes the connection
				c := serve(t, Promptly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !stands.Load() {
						allowing(0).ServeHTTP(w, r)
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
				})))
				if before > 0 {
					c.suspected.Store(&suspicion{c.lock.Address(), time.Now().Add(-before)})
				}
				stands.Store(true)
				ctx, cancel := end(t.Context())
				defer cancel()
				if got, ok := c.Review(ctx, request()); ok {
					t.Fatalf("the answer is %+v", got)
				}
				stands.Store(false)
				if _, ok := c.Review(t.Context(), request()); !ok {
					t.Error("the leader is there, and was not asked")
				}
			})
		}
	}
}

// The leader learns how much time its follower has left, rounded up: one that gives up first would
// be taken for a leader that does not answer.
func TestLeaderLearnsTheTimeThatIsLeft(t *testing.T) {
	const left = 10 * time.Second
	var told atomic.Pointer[string]
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told.Store(new(r.Header.Get(webhook.TimeLeftHeader)))
		allowing(0).ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), left)
	defer cancel()
	deadline, _ := ctx.Deadline()
	if _, ok := c.Review(ctx, request()); !ok {
		t.Fatal("it did not answer")
	}
	ms, err := strconv.Atoi(*told.Load())
	if got := time.Duration(ms) * time.Millisecond; err != nil || got > left || got < time.Until(deadline) {
		t.Errorf("it was told %q of %s: %v", *told.Load(), left, err)
	}
	if _, ok := c.Review(t.Context(), request()); !ok || *told.Load() != "" {
		t.Errorf("it was told %q of a request without a deadline", *told.Load())
	}
}

// A leader that answers again is asked by all requests again.
func TestLeaderComesBack(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.NotFound(w, r)
			return
		}
		allowing(0).ServeHTTP(w, r)
	}))
	if _, ok := c.Review(t.Context(), request()); ok {
		t.Fatal("it answered while it was down")
	}
	down.Store(false)
	c.suspected.Store(&suspicion{c.lock.Address(), time.Now().Add(-time.Millisecond)})
	for range 3 {
		if _, ok := c.Review(t.Context(), request()); !ok {
			t.Fatal("it is up, and was not asked")
		}
	}
}

// A server without our certificate is not the leader, whatever the Lease says.
func TestAnotherCertificate(t *testing.T) {
	c := serve(t, Promptly(allowing(0)))
	for name, certificate := range map[string]func(*tls.ClientHelloInfo) (*tls.Certificate, error){
		"another one": func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{{1}}}, nil
		},
		"none": func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("there is none yet") },
	} {
		stranger := NewClient(c.lock, c.path, certificate)
		if got, ok := stranger.Review(t.Context(), request()); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// elect writes into the Lease who leads, which the election of this replica has not read yet.
func elect(c *Client, holder string) { c.lock.reader.(*lease).record.HolderIdentity = holder }

// Without a leader no replica is asked, and a leader that is gone is noticed at once.
func TestNobodyLeads(t *testing.T) {
	c := serve(t, Promptly(allowing(0)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	for _, holder := range []string{"", "gone@" + l.Addr().String()} {
		elect(c, holder)
		_, _, _ = c.lock.Get(t.Context())
		fastest := time.Hour // of some, for the machine may stall
		for range 5 {
			c.suspected.Store(nil)
			begin := time.Now()
			if _, ok := c.Review(t.Context(), request()); ok {
				t.Errorf("held by %q: answered", holder)
			}
			fastest = min(fastest, time.Since(begin))
		}
		if fastest > answerWithin {
			t.Errorf("held by %q: that is noticed after %s", holder, fastest)
		}
	}
}

// A replica that would draw asks a new leader; of its own election it learns by the election alone.
func TestSomebodyLeadsSinceAMomentAgo(t *testing.T) {
	c := serve(t, Promptly(allowing(0)))
	leader := c.lock.reader.(*lease).record.HolderIdentity
	for _, before := range []string{"", "gone@127.0.0.1:1"} {
		elect(c, before)
		_, _, _ = c.lock.Get(t.Context())
		if _, ok := c.Review(t.Context(), request()); ok {
			t.Fatalf("held by %q: somebody answered", before)
		}
		elect(c, leader)
		for range 2 {
			if _, ok := c.Review(t.Context(), request()); !ok {
				t.Errorf("held by %q before: the new leader was not asked", before)
			}
		}
	}
	_ = c.lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: c.lock.Identity()})
	elect(c, "other@127.0.0.1:1")
	if address := c.lock.Reread(t.Context()); address != "" {
		t.Errorf("the leader read the Lease: %s", address)
	}
}
