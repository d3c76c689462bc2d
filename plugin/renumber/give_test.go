package renumber

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

func TestKeptStill(t *testing.T) {
	other := web
	other.UID = "2"
	ip := func(a netip.Addr, of Item) *networkingv1.IPAddress {
		second := newSecond(of, first, a, "nonce")
		return marked(upstream.NewIPAddress(a, nameOf(second)), of, second, "")
	}
	m := Mover{Keep: KeepService, Client: fake.NewClientBuilder().WithObjects(ip(four, web), ip(six, other)).Build()}
	for want, items := range [][]Item{nil, {web}, {web, other}} {
		if got, err := m.keptStill(t.Context(), items, 0); got != want || err != nil {
			t.Errorf("of %d Services: %d, %v", want, got, err)
		}
	}
	if text := givenUp(1, 2); !strings.HasPrefix(text, "1 addresses were given up, 2 are still kept") {
		t.Error(text)
	}
	if text := givenUp(2, 0); text != "2 addresses were given up, none is kept any more" {
		t.Error(text)
	}
}

// One tenant's Service must not stop the run of all.
func TestRenewLeavesTheIPAddressOfAnotherService(t *testing.T) {
	other := web
	other.Name = "other"
	m := Mover{Client: fake.NewClientBuilder().WithObjects(upstream.NewIPAddress(four, other.Key())).Build()}
	if err := m.renew(t.Context(), upstream.NewIPAddress(four, web.Key())); !errors.As(err, new(*LeftError)) {
		t.Error(err)
	}
}
