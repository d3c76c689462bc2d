package robustness_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// meshPort is where a mesh's proxy in a pod gets the connections of the other programs there.
const meshPort = 15001

// meshRules lead all connections of a pod to the mesh's proxy, as Istio and Linkerd do.
const meshRules = `*nat
:MESH_OUTPUT - [0:0]
:MESH_REDIRECT - [0:0]
-A OUTPUT -p tcp -j MESH_OUTPUT
-A MESH_OUTPUT -m owner --uid-owner 1337 -j RETURN
-A MESH_OUTPUT -o lo -j RETURN
-A MESH_OUTPUT -j MESH_REDIRECT
-A MESH_REDIRECT -p tcp -j REDIRECT --to-ports %d
COMMIT
`

// mesh starts a proxy in a pod that greets with what its clients have asked for, redirects all
// connections of the pod to it, and wants it to see those to the virtual IPs of the Service so.
func (env *translating) mesh(ctx context.Context, pod *network.Namespace, sees func(vip netip.AddrPort) any) {
	GinkgoHelper()
	go network.Accept(suite.Must(pod.Listen("tcp", fmt.Sprintf(":%d", meshPort))), func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		asked, err := originalDestination(conn.(*net.TCPConn))
		if err == nil {
			_, _ = fmt.Fprintln(conn, "mesh", asked, conn.RemoteAddr())
		}
	})
	for _, family := range environment.Families {
		cmd := pod.Command(ctx, "ip"+family+"tables-nft-restore", "--noflush", "-w", "20")
		cmd.Stdin = strings.NewReader(fmt.Sprintf(meshRules, meshPort))
		out, err := cmd.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
	}
	for _, f := range network.Families {
		vip := environment.VIP(env.service, f)
		Expect(pod.Dial(network.Probe{To: vip})).To(And(HaveField("Server", "mesh"), HaveField("Endpoint", sees(vip))))
	}
}

// originalDestination is where a connection was to go before a rule redirected it.
func originalDestination(conn *net.TCPConn) (asked netip.AddrPort, err error) {
	const option = 80 // SO_ORIGINAL_DST, and that of IPv6
	raw, err := conn.SyscallConn()
	if err != nil {
		return asked, err
	}
	four := conn.RemoteAddr().(*net.TCPAddr).IP.To4() != nil
	problem := raw.Control(func(fd uintptr) {
		if four {
			var a *unix.IPv6Mreq // which is not shorter than a sockaddr_in
			if a, err = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, option); err == nil {
				asked = netip.AddrPortFrom(netip.AddrFrom4([4]byte(a.Multiaddr[4:8])), binary.BigEndian.Uint16(a.Multiaddr[2:]))
			}
			return
		}
		var a *unix.IPv6MTUInfo // which begins with a sockaddr_in6
		if a, err = unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, option); err == nil {
			port := binary.NativeEndian.AppendUint16(nil, a.Addr.Port)
			asked = netip.AddrPortFrom(netip.AddrFrom16(a.Addr.Addr), binary.BigEndian.Uint16(port))
		}
	})
	return asked, errors.Join(problem, err)
}

var _ = Describe("The scope of what is translated at connect()", func() {
	for _, mode := range translatingModes {
		labels := environment.LabelsOf(translatingModes, mode, "scope")

		It("host leaves pods to rules, and a mesh there sees virtual IPs, "+mode, labels, func(ctx SpecContext) {
			env := newTranslating(ctx, mode, "host")
			env.counts(ctx, env.Pod1, 0)
			env.counts(ctx, env.Node, 1)
			env.mesh(ctx, env.Pod1, func(vip netip.AddrPort) any { return vip })
		})

		It("pods leaves the node to rules, and passes a mesh by, "+mode, labels, func(ctx SpecContext) {
			env := newTranslating(ctx, mode, "pods")
			env.counts(ctx, env.Pod1, 1)
			env.counts(ctx, env.Node, 0)
			env.mesh(ctx, env.Pod1, func(netip.AddrPort) any { return HaveField("Port()", BeEquivalentTo(8080)) })
		})

		It("pods finds the cgroup of pods again that was removed and made, "+mode, labels, func(ctx SpecContext) {
			env := newTranslating(ctx, mode, "pods")
			for range 3 {
				Expect(env.RemovePods()).To(Succeed())
				env.state(ctx, "NoPodsCgroup")
				Expect(env.MakePods()).To(Succeed())
				env.state(ctx, "Attached")
				env.counts(ctx, env.Pod1, 1)
			}
		})
	}
})

// counts expects that of a client's connections, which succeed, all (1) or none (0) are translated.
func (env *translating) counts(ctx context.Context, client *network.Namespace, each float64) {
	GinkgoHelper()
	for _, f := range network.Families {
		before := env.taken(ctx)
		for range 5 {
			Expect(client.Dial(network.Probe{To: environment.VIP(env.service, f)})).To(environment.End(network.Connected))
		}
		Expect(env.taken(ctx)-before).To(Equal(5*each), "of 5 connections from "+client.Host()+" over "+f.String())
	}
}
