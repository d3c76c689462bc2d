package webhook

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// serving starts a server with a handler, and returns its URL, a client, and what ends the server
// and waits for it.
func serving(t *testing.T, handle func(context.Context)) (url string, client *http.Client, end func()) {
	t.Helper()
	data, _ := issued(t, nil)
	certificate, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	s := &server{Server: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }
	}}})}
	s.Register("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that a client hangs up
		handle(r.Context())
		_, _ = io.WriteString(w, "answered")
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	for s.StartedChecker()(nil) != nil {
		time.Sleep(time.Millisecond)
	}
	client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a test of its own server
	return "https://" + free.Addr().String(), client, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// The manager is told to stop while a request is being answered.
func TestARequestOutlivesTheManager(t *testing.T) {
	came, goOn := make(chan struct{}), make(chan struct{})
	var at error
	url, client, end := serving(t, func(ctx context.Context) {
		close(came)
		<-goOn
		time.Sleep(draining + 200*time.Millisecond) // by then the server is stopped
		at = ctx.Err()
	})
	answered := make(chan string, 1)
	go func() {
		response, err := client.Post(url, "text/plain", strings.NewReader("asked"))
		if err != nil {
			answered <- err.Error()
			return
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		answered <- string(text)
	}()
	<-came
	go func() { close(goOn) }()
	end()
	if text := <-answered; text != "answered" || at != nil {
		t.Errorf("the client hears %q; the context of the request: %v", text, at)
	}
}

func TestARequestEndsWithItsClient(t *testing.T) {
	came, ended := make(chan struct{}), make(chan struct{})
	url, client, end := serving(t, func(ctx context.Context) {
		close(came)
		<-ctx.Done()
		close(ended)
	})
	defer end()
	ctx, hangUp := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("asked"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-came
		hangUp()
	}()
	if response, err := client.Do(request); err == nil {
		_ = response.Body.Close()
		t.Error("a client that hung up has an answer")
	}
	<-ended
}

// A connection that an API server keeps is not closed under a request: the last answer says so.
func TestConnectionsAreDrained(t *testing.T) {
	url, client, end := serving(t, func(context.Context) {})
	ask := func() (last bool) {
		response, err := client.Post(url, "text/plain", strings.NewReader("asked"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return response.Close
	}
	if ask() {
		t.Fatal("a server that runs closes its connections")
	}
	ended := make(chan struct{})
	go func() {
		end()
		close(ended)
	}()
	for !ask() {
		select {
		case <-ended:
			t.Fatal("the server has ended, and has not said so on a connection that was in use")
		default:
		}
	}
	<-ended
}
