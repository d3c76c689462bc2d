package growth

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// A platform may refuse ServiceCIDRs by permissions or an admission policy, as OpenShift does: an
// admin is told what to do. Of a range that is there already the error itself says it.
func TestGrowthThatIsRefusedSaysWhatToDo(t *testing.T) {
	resource := schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"permissions":         {apierrors.NewForbidden(resource, "grown", errors.New("no")), true},
		"an admission policy": {apierrors.NewInvalid(schema.GroupKind{Kind: "ServiceCIDR"}, "grown", nil), true},
		"it is there":         {apierrors.NewAlreadyExists(resource, "grown"), false},
		"a moment's trouble":  {apierrors.NewInternalError(errors.New("no")), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := failed([]error{fmt.Errorf("creating ServiceCIDR grown: %w", tc.err)})
			if c.Reason != v1alpha1.ReasonCreationFailed || strings.Contains(c.Message, "let the operator's ServiceAccount create ServiceCIDRs") != tc.want {
				t.Errorf("%s: %s", c.Reason, c.Message)
			}
		})
	}
}
