package plugin_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// kubelet stands in for one, as far as the API server asks it for logs and has it run programs.
type kubelet struct {
	log, dump string
	asked     []string // what it was asked, one at a time
}

// start serves as the kubelet of a new node.
func (k *kubelet) start(ctx context.Context, node string) {
	GinkgoHelper()
	here := suite.Must(network.MachineAddr())
	certificate, key, err := c.ServerCert([]string{node}, here)
	Expect(err).NotTo(HaveOccurred())
	server := httptest.NewUnstartedServer(k)
	Expect(server.Listener.Close()).To(Succeed())
	server.Listener = suite.Must((&net.ListenConfig{}).Listen(ctx, "tcp", ":0"))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{suite.Must(tls.X509KeyPair(certificate, key))}}
	port := server.Listener.Addr().(*net.TCPAddr).Port
	server.StartTLS()
	DeferCleanup(server.Close)
	c.CreateNode(ctx, node, nil, here.String())
	DeferCleanup(c.DeleteNode, node)
	o := suite.Must(c.Client().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}))
	o.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	suite.Must(c.Client().CoreV1().Nodes().UpdateStatus(ctx, o, metav1.UpdateOptions{}))
}

// ServeHTTP implements http.Handler.
func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/containerLogs/"):
		_, _ = fmt.Fprint(w, k.log) // the test sees what came
	case strings.HasPrefix(r.URL.Path, "/exec/"):
		k.asked = append(k.asked, strings.Join(r.URL.Query()["command"], " "))
		k.exec(w, r)
	default:
		http.NotFound(w, r)
	}
}

// exec answers as a program that prints the dump and ends well.
func (k *kubelet) exec(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 3)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	open := map[string]httpstream.Stream{}
	for len(open) < 3 { // error, stdout, stderr
		s := <-streams
		open[s.Headers().Get(corev1.StreamType)] = s
	}
	_, _ = fmt.Fprint(open[corev1.StreamTypeStdout], k.dump)
	_, _ = fmt.Fprint(open[corev1.StreamTypeError], `{"status": "Success"}`)
	for _, s := range open {
		_ = s.Close()
	}
	<-conn.CloseChan()
}
