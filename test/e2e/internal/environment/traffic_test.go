package environment

import (
	"bufio"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// faulty serves TCP and UDP on loopback. A fault makes it hang up, or over UDP change its name.
func faulty(t *testing.T) (address string, fault *atomic.Bool) {
	t.Helper()
	fault = new(atomic.Bool)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := net.ListenPacket("udp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = listener.Close(), packets.Close() })
	go network.Accept(listener, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		if fault.Load() {
			return
		}
		_, _ = fmt.Fprintln(conn, "me", conn.LocalAddr())
		for lines := bufio.NewScanner(conn); lines.Scan() && !fault.Load(); {
			_, _ = fmt.Fprintln(conn, lines.Text())
		}
	})
	go func() {
		for buffer := make([]byte, 100); ; {
			_, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(fmt.Appendln(nil, fault.Load()), from)
		}
	}()
	return listener.Addr().String(), fault
}

// Every suite expects that nothing gets lost. That a loss is seen is tested here.
func TestLossesAreSeen(t *testing.T) {
	gomega.RegisterTestingT(t)
	address, fault := faulty(t)
	traffic := newTraffic()
	defer traffic.Stop()
	dial := new(net.Dialer).DialContext
	traffic.connect("new", dial, address, 20*time.Millisecond)
	traffic.stay("kept", dial, "tcp", address, 8)
	traffic.stay("UDP", dial, "udp", address, 8)
	gomega.Eventually(func(g gomega.Gomega) {
		for name, stream := range traffic.streams {
			tried, _ := stream.soFar()
			g.Expect(tried).To(gomega.BeNumerically(">=", 5), name)
		}
	}).WithTimeout(Soon).Should(gomega.Succeed())
	for name, stream := range traffic.streams {
		if tried, losses := stream.soFar(); tried < 5 || len(losses) > 0 {
			t.Errorf("%s: tried %d, lost %q", name, tried, losses)
		}
	}
	fault.Store(true)
	gomega.Eventually(func(g gomega.Gomega) {
		for name, stream := range traffic.streams {
			_, losses := stream.soFar()
			if name == "kept" {
				g.Expect(losses).To(gomega.HaveLen(8), "each of the eight once")
			} else {
				g.Expect(len(losses)).To(gomega.BeNumerically(">=", 5), name)
			}
		}
	}).WithTimeout(Soon).Should(gomega.Succeed())
}
