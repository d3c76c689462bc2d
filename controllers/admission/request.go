package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// service is what matters of a Service on its way into the cluster. A whole corev1.Service takes
// several times as long to decode, and every creation waits for this.
type service struct {
	Metadata struct {
		Name         string            `json:"name"`
		GenerateName string            `json:"generateName"`
		Namespace    string            `json:"namespace"`
		Labels       map[string]string `json:"labels"`
		Annotations  map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Type           corev1.ServiceType     `json:"type"`
		ClusterIP      string                 `json:"clusterIP"`
		ClusterIPs     []string               `json:"clusterIPs"`
		IPFamilies     []corev1.IPFamily      `json:"ipFamilies"`
		IPFamilyPolicy *corev1.IPFamilyPolicy `json:"ipFamilyPolicy"`
	} `json:"spec"`
}

// decode reads the Service of a request, and the one that it replaces; old is nil for a creation.
func decode(req admission.Request) (s, old *service, err error) {
	if old, s, err = objectsOf[service](req.AdmissionRequest); err == nil {
		s.Metadata.Namespace = req.Namespace
	}
	return s, old, err
}

// objectsOf reads the object before a request (nil: creation) and after it (nil: deletion).
func objectsOf[T any](req admissionv1.AdmissionRequest) (before, after *T, err error) {
	read := func(raw []byte) *T {
		o := new(T)
		if problem := json.Unmarshal(raw, o); problem != nil {
			err = fmt.Errorf("reading a %T of the request: %w", *o, problem)
		}
		return o
	}
	if req.Operation != admissionv1.Create {
		before = read(req.OldObject.Raw)
	}
	if req.Operation != admissionv1.Delete {
		after = read(req.Object.Raw)
	}
	return before, after, err
}

// key names the Service; one whose name the API server has yet to generate has none.
func (s *service) key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Metadata.Namespace, Name: s.Metadata.Name}
}

// ips returns the addresses as the API server reads them: clusterIP counts without clusterIPs.
func (s *service) ips() []string {
	if len(s.Spec.ClusterIPs) == 0 && s.Spec.ClusterIP != "" {
		return []string{s.Spec.ClusterIP}
	}
	return s.Spec.ClusterIPs
}

// keeps returns the addresses that the Service has without a draw: of the request, or else its own.
// An old client that knows only clusterIP sends back the first; the API server then keeps both.
func keeps(s, old *service) []string {
	if old != nil && old.needsAddress() && len(s.Spec.ClusterIPs) == 0 {
		return old.ips()
	}
	return s.ips()
}

func (s *service) needsAddress() bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && !slices.Contains(s.ips(), corev1.ClusterIPNone)
}

func chosen(s, old *service) []netip.Addr {
	var before []netip.Addr
	if old != nil && old.needsAddress() {
		before, _ = parseAll(old.ips())
	}
	now, _ := parseAll(keeps(s, old))
	return slices.DeleteFunc(now, func(a netip.Addr) bool { return slices.Contains(before, a) })
}

// misspelt returns the first address that a request names anew and not in its canonical form, empty
// for none. The API server stores it as written but names its IPAddress canonically. Its repair
// takes the two for different addresses, and deletes and creates the IPAddress without end.
func misspelt(s, old *service) string {
	named := chosen(s, old)
	for _, text := range keeps(s, old) {
		if a, ok := addressindex.ParseClusterIP(text); ok && a.String() != text && slices.Contains(named, a) {
			return text
		}
	}
	return ""
}

// canonical writes an address as the API server does; what is none stays as it is.
func canonical(text string) string {
	if a, ok := addressindex.ParseClusterIP(text); ok {
		return a.String()
	}
	return text
}

// parseAll reads addresses as API servers do, also with leading zeros, and reports whether all
// texts are addresses. The API server refuses what is none.
func parseAll(texts []string) (all []netip.Addr, ok bool) {
	ok = true
	for _, text := range texts {
		a, valid := addressindex.ParseClusterIP(text)
		ok = ok && valid
		if valid {
			all = append(all, a)
		}
	}
	return all, ok
}

// ControlPlane are the users of the control plane, which know what they do: API servers, and
// kube-controller-manager with one account or one for each controller
// (--use-service-account-credentials). The guards let them pass, and config/webhook spares them the
// call; a test keeps both lists equal.
var ControlPlane = []string{
	"system:apiserver",
	"system:kube-controller-manager",
	"system:serviceaccount:kube-system:generic-garbage-collector",
	"system:serviceaccount:kube-system:namespace-controller",
	"system:serviceaccount:kube-system:service-cidrs-controller",
}

// trusted reports whether a request comes from the control plane or from the operator itself, whose
// user name is given. Guards look at all other requests.
func trusted(req admission.Request, operator string) bool {
	user := req.UserInfo.Username
	return slices.Contains(ControlPlane, user) || operator != "" && user == operator
}

// respond answers for a guard. What it could not find out lets the request pass.
func respond(ctx context.Context, refusal string, warnings []string, err error) admission.Response {
	if err != nil {
		log.FromContext(ctx).Error(err, "A request passes unseen")
		return admission.Allowed("")
	}
	if refusal != "" {
		return admission.Denied(refusal)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}
