package trace

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func TestMain(m *testing.M) { network.Isolate(m) }

// variant is one of the four rulesets that a node can have.
type variant struct {
	mode   iptables.Mode
	family model.Family
}

func (v variant) String() string { return string(v.mode) + "/" + v.family.String() }

var variants = []variant{{iptables.NFT, model.IPv4}, {iptables.NFT, model.IPv6}, {iptables.Legacy, model.IPv4}, {iptables.Legacy, model.IPv6}}

// eachVariant runs a test for all of them on the same node, each with no rules but its own.
func eachVariant(t *testing.T, run func(t *testing.T, v variant)) {
	t.Helper()
	makeNode(t)
	for _, v := range variants {
		t.Run(v.String(), func(t *testing.T) {
			t.Cleanup(func() { v.restore(t, "*nat\nCOMMIT\n*filter\nCOMMIT\n") })
			run(t, v)
		})
	}
}

// makeNode sets up eth0, the way out, with two addresses of each family, and cni0 for pods.
// Neighbours without hosts are permanent entries: the sender would hear of a failed resolution.
func makeNode(t *testing.T) {
	t.Helper()
	network.NeedIsolation(t)
	t.Cleanup(func() {
		command(t, "link del eth0\nlink del cni0\n", "ip", "-batch", "-")
		for _, v := range variants {
			v.restore(t, "*nat\nCOMMIT\n*filter\nCOMMIT\n")
		}
	})
	command(t, `link set lo up
		link add eth0 type veth peer name far0
		link set eth0 up
		link set far0 up
		link add cni0 type veth peer name far1
		link set cni0 up
		link set far1 up
		addr add 192.168.0.1/24 dev eth0
		addr add 192.168.0.2/24 dev eth0
		addr add 10.244.1.1/24 dev cni0
		route add default via 192.168.0.254
		addr add fd00:1::1/64 dev eth0 nodad
		addr add fd00:1::2/128 dev eth0 nodad
		addr add fd00:244:1::1/64 dev cni0 nodad
		route add default via fd00:1::fe dev eth0
		neigh add 192.168.0.254 lladdr 02:00:00:00:00:fe dev eth0
		neigh add fd00:1::fe lladdr 02:00:00:00:00:fe dev eth0`, "ip", "-batch", "-")
	for _, forward := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"} {
		if err := os.WriteFile(forward, []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// restore replaces all rules of the tables in text.
func (v variant) restore(t *testing.T, text string) {
	t.Helper()
	program := map[model.Family]string{model.IPv4: "iptables-", model.IPv6: "ip6tables-"}[v.family] + string(v.mode) + "-restore"
	command(t, text, program)
}

func command(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	if t.Context().Err() != nil { // in a clean-up
		c = exec.Command(name, args...)
	}
	c.Stdin = strings.NewReader(input)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s\n%s", name, strings.Join(args, " "), err, out, input)
	}
	return string(out)
}

// addr returns the address of the variant's family.
func (v variant) addr(v4, v6 string) netip.Addr {
	if v.family == model.IPv6 {
		return netip.MustParseAddr(v6)
	}
	return netip.MustParseAddr(v4)
}
