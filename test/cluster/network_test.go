package cluster

import (
	"net"
	"strings"
	"testing"
)

// A cluster in the machine's own network would change its routes and settings.
func TestANetworkThatIsUsedIsRefused(t *testing.T) {
	lo := net.Interface{Name: "lo", Flags: net.FlagUp | net.FlagLoopback}
	if err := mayUse([]net.Interface{lo, {Name: "sit0"}}); err != nil {
		t.Errorf("a network of its own: %v", err)
	}
	if err := mayUse([]net.Interface{lo, {Name: "eth0", Flags: net.FlagUp}}); err == nil || !strings.Contains(err.Error(), "eth0 is up") {
		t.Errorf("a network with eth0: %v", err)
	}
}
