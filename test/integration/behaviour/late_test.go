package behaviour_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// late is between a manager and the API server, and makes one of its writes late: it arrives when
// the spec says so, also when the manager is dead by then.
type late struct {
	kubeconfig string

	mu   sync.Mutex
	next *held // what is to be held, nil for nothing
}

// held is a write that is late.
type held struct {
	wants func(*http.Request) bool
	here  chan struct{} // closed once it is
	goOn  chan struct{} // closed when it may
	code  chan int      // of the API server's answer
}

// newLate ends with the calling node. The manager behind it is the operator's user.
func newLate(c *cluster.Cluster) *late {
	GinkgoHelper()
	l := &late{kubeconfig: filepath.Join(GinkgoT().TempDir(), "kubeconfig")}
	config := cluster.OperatorConfig(c.Access)
	to := suite.Must(url.Parse(config.Host))
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     suite.Must(rest.TransportFor(config)),
		FlushInterval: -1, // watches
		ModifyResponse: func(r *http.Response) error {
			if code, is := r.Request.Context().Value(l).(chan int); is {
				code <- r.StatusCode
			}
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := l.take(r); h != nil {
			body, _ := io.ReadAll(r.Body) // while its sender lives
			r.Body = io.NopCloser(bytes.NewReader(body))
			close(h.here)
			<-h.goOn
			// Without CloseNotify, by which a ReverseProxy cancels what a dead client has asked for.
			w, r = struct{ http.ResponseWriter }{w}, r.WithContext(context.WithValue(context.WithoutCancel(r.Context()), l, h.code))
		}
		forward.ServeHTTP(w, r)
	}))
	DeferCleanup(server.Close)
	DeferCleanup(server.CloseClientConnections)
	Expect(framework.WriteKubeconfig(l.kubeconfig, &rest.Config{Host: server.URL})).To(Succeed())
	return l
}

// hold makes the next write late that has this method, and whose path ends so. It returns what
// waits until the write is here, and what lets it go on and returns the answer.
func (l *late) hold(method, path string) (arrives func(), finish func() int) {
	h := &held{here: make(chan struct{}), goOn: make(chan struct{}), code: make(chan int, 1)}
	h.wants = func(r *http.Request) bool { return r.Method == method && strings.HasSuffix(r.URL.Path, path) }
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = h
	release := sync.OnceFunc(func() { close(h.goOn) })
	DeferCleanup(release)
	arrives = func() {
		GinkgoHelper()
		Eventually(h.here).WithTimeout(2*cluster.Timeout).Should(BeClosed(), "the manager has not sent it")
	}
	finish = func() (answer int) {
		GinkgoHelper()
		release()
		Eventually(h.code).Should(Receive(&answer))
		return answer
	}
	return arrives, finish
}

// take is what holds a request, nil for another one.
func (l *late) take(r *http.Request) (h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil || !l.next.wants(r) {
		return nil
	}
	h, l.next = l.next, nil
	return h
}
