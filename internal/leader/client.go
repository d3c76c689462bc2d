package leader

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/internal/webhook"
)

const (
	// connectWithin is how long the leader may take to accept a connection: a dead machine is silent.
	connectWithin = 300 * time.Millisecond
	// answerWithin is how long a leader that is there may be silent. It says at once that it has a
	// request, and may then take the time that the request has. A leader without CPU time is silent
	// for a while, and drawing beside it costs collisions.
	answerWithin = time.Second
	// askAgainAfter is how long a silent leader is left alone. Then one request tries it again.
	askAgainAfter = time.Second
	// maxAnswer bounds what is read of an answer: a patch of two addresses, and warnings.
	maxAnswer = 1 << 20
)

var (
	errSilent    = errors.New("the leader does not answer")
	errNotLeader = errors.New("the server shows another certificate than this replica has")
)

// Client hands AdmissionReviews on to the leader. NewClient makes one, safe for concurrent use.
type Client struct {
	lock      *Lock
	path      string
	transport http.RoundTripper
	suspected atomic.Pointer[suspicion]
}

// suspicion says until when a leader is left alone.
type suspicion struct {
	address string
	until   time.Time
}

// NewClient returns a Client that finds the leader by lock and posts to path there. The leader
// proves itself by the certificate that all replicas share; certificate returns it.
func NewClient(lock *Lock, path string, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *Client {
	return &Client{lock: lock, path: path, transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: connectWithin}).DialContext,
		MaxIdleConnsPerHost: 128,
		IdleConnTimeout:     time.Minute,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // VerifyConnection is stricter: it accepts one certificate, whatever address the leader has
			VerifyConnection: func(state tls.ConnectionState) error {
				own, err := certificate(nil)
				if err == nil && !bytes.Equal(own.Certificate[0], state.PeerCertificates[0].Raw) {
					err = errNotLeader
				}
				return err
			},
		},
	}}
}

// Review returns the leader's answer to a request, which holds no more than this replica has kept
// of it; the leader bounds it anew. It is false if this replica has to answer, or ctx has ended.
// Before it says so it reads the Lease again, unless this replica leads.
func (c *Client) Review(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, bool) {
	address := c.lock.Address()
	try, ok := c.mayAsk(address, time.Now())
	if address == "" || !ok {
		stale := address
		if address = c.lock.Reread(ctx); address == "" || address == stale {
			return nil, false
		}
	}
	response, err := c.post(ctx, "https://"+address+c.path, request)
	switch {
	case err == nil:
		c.suspected.Store(nil)
		return response, true
	case ctx.Err() != nil:
		// The caller hung up, or its time is up. A tenant can have that happen as often as it
		// likes, and it says nothing about the leader.
		if try != nil {
			c.suspected.CompareAndSwap(try, &suspicion{address, time.Now()})
		}
	default:
		c.suspected.Store(&suspicion{address, time.Now().Add(askAgainAfter)})
		log.FromContext(ctx).Info("The leader did not take a request; answering it here", "leader", address, "problem", err.Error())
	}
	return nil, false
}

// mayAsk is false while this leader is suspected to be gone. When that time is over it lets one
// request through and suspects the leader for another while, until that request has its answer; try
// is that suspicion, nil for a leader that is trusted.
func (c *Client) mayAsk(address string, now time.Time) (try *suspicion, ok bool) {
	s := c.suspected.Load()
	if s == nil || s.address != address {
		return nil, true
	}
	if now.Before(s.until) {
		return nil, false
	}
	try = &suspicion{address, now.Add(askAgainAfter)}
	return try, c.suspected.CompareAndSwap(s, try)
}

func (c *Client) post(ctx context.Context, url string, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Request: request,
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, fmt.Errorf("writing the AdmissionReview: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	deadline := time.AfterFunc(answerWithin, func() { cancel(errSilent) })
	defer deadline.Stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { deadline.Stop(); return nil },
	})
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	if end, ok := ctx.Deadline(); ok {
		webhook.SetTimeLeft(post.Header, time.Until(end))
	}
	answer, err := c.transport.RoundTrip(post)
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the leader answers with status %d", answer.StatusCode)
	}
	review = admissionv1.AdmissionReview{}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&review); err != nil {
		return nil, fmt.Errorf("reading the leader's answer: %w", err)
	}
	switch response := review.Response; {
	case response == nil:
		return nil, errors.New("the leader's AdmissionReview has no response")
	case response.Result != nil && response.Result.Code == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("the leader cannot decide: %s", response.Result.Message)
	default:
		return response, nil
	}
}

// Promptly lets a handler say that it has a request before it works on it, by 102 Processing.
func Promptly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		type wrapper interface{ Unwrap() http.ResponseWriter }
		plain := w // beneath the writers that count status codes, for which 102 would be the last one
		for u, ok := plain.(wrapper); ok; u, ok = plain.(wrapper) {
			plain = u.Unwrap()
		}
		plain.WriteHeader(http.StatusProcessing)
		handler.ServeHTTP(w, r)
	})
}
