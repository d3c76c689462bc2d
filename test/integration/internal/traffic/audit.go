package traffic

import (
	"cmp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/audit"
)

// NewAuditLog makes a log of writes of Services and IPAddresses, with the flags of [audit.New].
func NewAuditLog() (log audit.Log, flags []string) {
	GinkgoHelper()
	return audit.New(`{level: RequestResponse, verbs: [create, update, patch, delete],
		resources: [{group: "", resources: [services]}, {group: networking.k8s.io, resources: [ipaddresses]}]}`)
}

// Who chose the addresses of a Service.
const (
	ByWebhook   = "by the webhook"
	ByAPIServer = "by the API server, which the webhook left it to"
	FailedOpen  = "by the API server, which got no answer"
)

// Event is one write that an API server has answered.
type Event struct {
	// Received is when the request came, Done when it was answered.
	Received, Done time.Time
	Verb           string
	// Resource is "services" or "ipaddresses".
	Resource        string
	Namespace, Name string
	User            string
	Code            int
	// Chosen says who chose the addresses of a Service.
	Chosen string
	// Addresses are those of the Service that was answered with, none if it was deleted or refused.
	Addresses []string
	// Parent is what the IPAddress in the answer names, namespace/name.
	Parent string
}

// Succeeded reports whether the request was granted.
func (e Event) Succeeded() bool { return e.Code >= 200 && e.Code < 300 }

// Events returns the writes that API servers have logged, without dry runs, in the answers' order.
func Events(logs ...audit.Log) (all []Event) {
	GinkgoHelper()
	for _, log := range logs {
		for _, r := range audit.Read[record](log) {
			if event, ok := r.event(); ok {
				all = append(all, event)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.Done.Compare(b.Done) })
	return all
}

// record is what matters here of an event of audit.k8s.io/v1.
type record struct {
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource, Namespace, Name, Subresource string
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	ResponseObject struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			ClusterIPs []string                      `json:"clusterIPs"`
			ParentRef  *networkingv1.ParentReference `json:"parentRef"`
		} `json:"spec"`
	} `json:"responseObject"`
	RequestReceivedTimestamp metav1.MicroTime  `json:"requestReceivedTimestamp"`
	StageTimestamp           metav1.MicroTime  `json:"stageTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

// event is false for dry runs and subresources, and for the beginnings that some logs have.
func (r record) event() (Event, bool) {
	if r.Stage == "RequestReceived" || strings.Contains(r.RequestURI, "dryRun=") || r.ObjectRef.Subresource != "" {
		return Event{}, false
	}
	event := Event{
		Received: r.RequestReceivedTimestamp.Time, Done: r.StageTimestamp.Time, Verb: r.Verb, Resource: r.ObjectRef.Resource,
		Namespace: r.ObjectRef.Namespace, Name: cmp.Or(r.ObjectRef.Name, r.ResponseObject.Metadata.Name), User: r.User.Username,
		Code: r.ResponseStatus.Code, Chosen: chosenBy(r.Annotations),
	}
	if parent := r.ResponseObject.Spec.ParentRef; parent != nil {
		event.Parent = parent.Namespace + "/" + parent.Name
	}
	if event.Succeeded() && event.Verb != "delete" {
		event.Addresses = assigned(r.ResponseObject.Spec.ClusterIPs)
	}
	return event, true
}

// chosenBy reads the annotations that an API server makes for mutating webhooks.
func chosenBy(annotations map[string]string) string {
	chosen := ByAPIServer
	for key, value := range annotations {
		switch {
		case strings.HasPrefix(key, "mutation.webhook.admission.k8s.io/") && strings.Contains(value, `"mutated":true`):
			return ByWebhook // also if it was asked once more and did not answer
		case strings.HasPrefix(key, "failed-open.mutation.webhook.admission.k8s.io/"):
			chosen = FailedOpen
		}
	}
	return chosen
}

// assigned returns the clusterIPs of a Service that are addresses: none of a headless one.
func assigned(clusterIPs []string) []string {
	return slices.DeleteFunc(slices.Clone(clusterIPs), func(ip string) bool { return ip == "" || ip == corev1.ClusterIPNone })
}
