package renumber

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Rules say which Services may be moved.
type Rules struct {
	// IncludeLoadBalancers moves those of type LoadBalancer, too. A cloud controller may see the
	// moment in which such a Service is none.
	IncludeLoadBalancers bool
	// Named are the Services that an admin has asked for by name.
	Named sets.Set[types.NamespacedName]
	// Callers says which objects name an address, such as a webhook configuration with a URL.
	Callers map[netip.Addr][]string
	// Awaited says of Services which webhook configurations have API servers call them, by name,
	// before they store a change of a Service, and refuse the change where that fails.
	Awaited map[types.NamespacedName][]string
	// Keeping are the second Services, by what IPAddresses say, and for which Service each keeps which
	// address.
	Keeping map[types.UID]string
}

// apiServers is the Service of the API servers, by which pods reach them. They create it if there
// is none, with the first address of their own range, and otherwise leave it as it is.
var apiServers = types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}

// judge returns why a Service is not moved, empty if it is. named says that it was asked for by
// name, which overrules that something names its address.
func (r Rules) judge(s *corev1.Service, named bool) string {
	switch why := r.address(s); {
	case r.Keeping[s.UID] != "":
		return fmt.Sprintf("it keeps %s: see `kubectl clusterip renumber kept`", r.Keeping[s.UID])
	case nameOf(s) == apiServers && !named:
		return "pods reach the API servers by it, and their certificates must have the new address before it moves (docs/guides/renumber.md): have them renewed, then ask for it by name " +
			"with --include default/kubernetes"
	case !s.DeletionTimestamp.IsZero():
		return "it is being deleted"
	case s.Spec.Type == corev1.ServiceTypeLoadBalancer && !r.IncludeLoadBalancers:
		return "it is a load balancer, and a cloud controller may see the moment in which it is none: --include-load-balancers"
	case r.awaited(s) != "":
		return r.awaited(s)
	case why != "" && !named:
		return fmt.Sprintf("%s: change that, then ask for it by name with --include %s/%s", why, s.Namespace, s.Name)
	default:
		return ""
	}
}

// awaited names webhooks that refuse changes of Services which this Service has not answered for. A
// move, or a way back, makes it an ExternalName for a moment, to which an API server of 1.37 sends
// calls at once: the change that ends the moment would wait for itself.
func (r Rules) awaited(s *corev1.Service) string {
	by := r.Awaited[nameOf(s)]
	if len(by) == 0 {
		return ""
	}
	return strings.Join(by, ", ") + " refuses changes of Services that this Service has not answered for, and so would the last step of its own move be refused: " +
		"set failurePolicy to Ignore there while it is moved"
}

// address says what names the address of a Service, and would go on doing so.
func (r Rules) address(s *corev1.Service) string {
	if by := addressManager(s); by != "" {
		return fmt.Sprintf("%q has written its address into spec.clusterIP or spec.clusterIPs, so a manifest names it", by)
	}
	for _, a := range addresses(s) {
		if callers := r.Callers[a]; len(callers) > 0 {
			return fmt.Sprintf("%s names %s", strings.Join(callers, ", "), a)
		}
	}
	if s.Namespace == metav1.NamespaceSystem && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 53 }) {
		return "it serves DNS, and kubelets name its address (clusterDNS)"
	}
	return ""
}

// addressManager is the field manager that chose an address of the Service; empty if the API server
// drew it, or a renumbering did. A draw is not among the managed fields: it comes after them.
func addressManager(s *corev1.Service) string {
	for _, f := range s.ManagedFields {
		fields := ""
		if f.FieldsV1 != nil {
			fields = f.FieldsV1.GetRawString()
		}
		named := strings.Contains(fields, `"f:clusterIP":`) || strings.Contains(fields, `"f:clusterIPs":`)
		if named && f.Manager != v1alpha1.ManagerRenumbering && f.Subresource == "" {
			return f.Manager
		}
	}
	return ""
}
