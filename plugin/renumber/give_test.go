package renumber

import (
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// One tenant's Service must not stop the run of all.
func TestRenewLeavesTheIPAddressOfAnotherService(t *testing.T) {
	other := web
	other.Name = "other"
	m := Mover{Client: fake.NewClientBuilder().WithObjects(upstream.NewIPAddress(four, other.Key())).Build()}
	if err := m.renew(t.Context(), upstream.NewIPAddress(four, web.Key())); !errors.As(err, new(*LeftError)) {
		t.Error(err)
	}
}
