package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// request is what a review asks about a Service. decode reads it, once; decide and the rest know
// nothing else of the review. The length of what is in it is bounded by ReadsOfService.
type request struct {
	// review is the UID of the AdmissionReview.
	review types.UID
	dryRun bool
	// service is what is to be stored, old what it replaces, nil for a creation.
	service, old *service
	// malformed is why no API server stores the Service, empty if one may; see insane.
	malformed string
	// keeps are the addresses that the Service has without a draw: of the request, or else its own.
	// An old client that knows only clusterIP sends back the first; the API server then keeps both.
	keeps []clusterIP
	// named are those of them that the Service has not had before.
	named []netip.Addr
	// misspelt is the first of these that is not in its canonical form, the zero clusterIP for none.
	// The API server stores it as written but names its IPAddress canonically. Its repair takes the
	// two for different addresses, and deletes and creates the IPAddress without end.
	misspelt clusterIP
}

// decode reads the request of a review about a Service.
func decode(req admission.Request) (request, error) {
	old, s, err := objectsOf[service](req.AdmissionRequest)
	if err != nil {
		return request{}, err
	}
	s.Metadata.Namespace = req.Namespace
	r := newRequest(s, old)
	r.review, r.dryRun = req.UID, ptr.Deref(req.DryRun, false)
	return r, nil
}

// newRequest compares a Service with the one that it replaces.
func newRequest(s, old *service) request {
	r := request{service: s, old: old, malformed: insane(s, old), keeps: s.ips()}
	var before []clusterIP
	if old != nil && old.needsAddress() {
		before = old.ips()
		if len(s.Spec.ClusterIPs) == 0 {
			r.keeps = before
		}
	}
	for _, c := range r.keeps {
		if !c.address.IsValid() || slices.ContainsFunc(before, func(b clusterIP) bool { return b.address == c.address }) {
			continue
		}
		r.named = append(r.named, c.address)
		if r.misspelt.text == "" && c.address.String() != c.text {
			r.misspelt = c
		}
	}
	return r
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
