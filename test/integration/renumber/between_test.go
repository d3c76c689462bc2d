package renumber_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// proxy is between the command and the API server, and sees every request that writes something.
type proxy struct {
	kubeconfig string

	mu     sync.Mutex
	writes int
	before func(n int, r *http.Request) // may wait
	after  func(n int)
}

// newProxy starts one that ends with the spec.
func newProxy() *proxy {
	GinkgoHelper()
	p := &proxy{kubeconfig: filepath.Join(GinkgoT().TempDir(), "kubeconfig")}
	to := suite.Must(url.Parse(c.URL()))
	transport := suite.Must(rest.TransportFor(c.AdminConfig()))
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1, // watches
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.URL.Query().Has("dryRun") {
			forward.ServeHTTP(w, r)
			return
		}
		p.write(w, r, forward)
	}))
	DeferCleanup(server.Close)
	DeferCleanup(server.CloseClientConnections)
	Expect(framework.WriteKubeconfig(p.kubeconfig, &rest.Config{Host: server.URL})).To(Succeed())
	return p
}

func (p *proxy) write(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	// A request that reached the API server is carried out, whatever becomes of the command: one that
	// is cancelled midway may leave a node port that no Service has.
	r = r.WithContext(context.WithoutCancel(r.Context()))
	p.mu.Lock()
	p.writes++
	n, before, after := p.writes, p.before, p.after
	p.mu.Unlock()
	if before != nil {
		before(n, r)
	}
	forward.ServeHTTP(struct{ http.ResponseWriter }{w}, r) // without CloseNotify, by which a ReverseProxy cancels all the same
	if after != nil {
		after(n)
	}
}

// watch counts from the beginning, and calls these functions; either may be nil.
func (p *proxy) watch(before func(n int, r *http.Request), after func(n int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes, p.before, p.after = 0, before, after
}

// start starts the command behind the proxy.
func (p *proxy) start(ctx context.Context, args ...string) *framework.Plugin {
	GinkgoHelper()
	return suite.Must(c.StartPlugin(ctx, framework.PluginOptions{Kubeconfig: p.kubeconfig, Args: append([]string{"renumber"}, args...)}))
}

// wait waits until a command has ended, and returns what it printed.
func wait(ctx context.Context, plugin *framework.Plugin) (code int, printed string) {
	GinkgoHelper()
	code = suite.Must(plugin.Wait(ctx))
	return code, plugin.LogTail(1000)
}

// stopBetween runs the command until the named Service is an ExternalName, and calls do right
// before the command's next write.
func stopBetween(ctx context.Context, name string, do func(), args ...string) (code int, printed string) {
	GinkgoHelper()
	p := newProxy()
	held, goOn := make(chan struct{}), make(chan struct{})
	var left, stopped atomic.Bool
	p.watch(func(_ int, r *http.Request) {
		if left.Load() && stopped.CompareAndSwap(false, true) {
			close(held)
			<-goOn
		}
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/services/"+name) {
			left.Store(true)
		}
	}, nil)
	plugin := p.start(ctx, args...)
	DeferCleanup(plugin.Kill)
	func() {
		defer close(goOn)
		Eventually(held).Should(BeClosed(), "it does not come to the second update")
		do()
		cached(ctx)
	}()
	return wait(ctx, plugin)
}

// cached waits until the API server's cache of Services has what was written so far. It begins an
// update with what it finds there, and allocates before it writes: where a later version refuses
// the write, the node port stays taken, for some minutes, and is refused to the next try.
func cached(ctx context.Context) {
	GinkgoHelper()
	now := suite.Must(c.Client().CoreV1().Services("").List(ctx, metav1.ListOptions{}))
	suite.Must(c.Client().CoreV1().Services("").List(ctx, metav1.ListOptions{
		ResourceVersion: now.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}))
}
