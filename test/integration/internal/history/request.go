package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rules are those of an audit policy that logs what [Requests] reads.
const Rules = `{level: RequestResponse, verbs: [create, update, patch, delete],
	resources: [{group: "", resources: [services]}, {group: networking.k8s.io, resources: [ipaddresses]}]}`

// Who chose the addresses of a Service.
const (
	ByWebhook   = "by the webhook"
	ByAPIServer = "by the API server, which the webhook left it to"
	FailedOpen  = "by the API server, which got no answer"
)

// Request is one write of a Service or an IPAddress.
type Request struct {
	// Received is when the request came, Done when it was answered: zero, if no answer is logged.
	Received, Done time.Time
	Verb           string
	// Resource is "services" or "ipaddresses".
	Resource        string
	Namespace, Name string
	User            string
	Code            int
	// Message is what a request was refused with.
	Message string
	// Asked are the addresses that the Service in the request has, or was given by a webhook.
	Asked []netip.Addr
	// Chosen says who chose the addresses of a Service that was answered with.
	Chosen string
	// Answer is the object that was answered with, nil if there was none.
	Answer *Object
}

// Object is a Service or an IPAddress, as it was written.
type Object struct {
	UID     string
	Name    string // namespace/name of a Service, the name of an IPAddress
	Version uint64
	Created time.Time // to the second
	// Addresses are those of a Service.
	Addresses []netip.Addr
	// Parent is what an IPAddress names: namespace/name of a Service, or the resource before it.
	Parent string
	// Beside says that the Service which an IPAddress names has the address beside its ClusterIPs.
	Beside bool
	// Ends says that the object is gone once this is written: it was deleted, and nothing holds it.
	Ends bool
}

// known reports whether the outcome is: an answer such as "timed out" may follow a write.
func (r Request) known() bool { return !r.Done.IsZero() && r.Code < 500 }

// Granted reports whether the answer says so.
func (r Request) Granted() bool { return r.known() && r.Code >= 200 && r.Code < 300 }

// Addresses are those that the Service in the answer has: none if it was deleted or refused.
func (r Request) Addresses() []netip.Addr {
	if r.Answer == nil || r.Verb == "delete" {
		return nil
	}
	return r.Answer.Addresses
}

// String is for the reader of a counterexample.
func (r Request) String() string {
	what := r.Verb + " " + strings.TrimSuffix(strings.TrimSuffix(r.Resource, "es"), "s")
	if r.Resource == "services" {
		what = r.Verb + " service " + r.Namespace + "/" + r.Name
	} else {
		what += " " + r.Name
	}
	if r.Done.IsZero() {
		return what + " by " + r.User + ": no answer"
	}
	return fmt.Sprintf("%s by %s: %d", what, r.User, r.Code)
}

// requests joins the records of one API server: the beginning and the answer of a request are one.
func requests(records []record) (all []Request) {
	begun := map[string]int{} // the place in all, by the ID of the request
	for _, r := range records {
		if strings.Contains(r.RequestURI, "dryRun=") || r.ObjectRef.Subresource != "" {
			continue
		}
		i, known := begun[r.AuditID]
		if !known {
			i = len(all)
			begun[r.AuditID], all = i, append(all, Request{})
		}
		if r.Stage != "RequestReceived" || !known {
			all[i] = r.request()
		}
	}
	return all
}

// record is what matters here of an event of audit.k8s.io/v1.
type record struct {
	AuditID    string `json:"auditID"`
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
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	RequestObject            json.RawMessage   `json:"requestObject"`
	ResponseObject           *object           `json:"responseObject"`
	RequestReceivedTimestamp metav1.MicroTime  `json:"requestReceivedTimestamp"`
	StageTimestamp           metav1.MicroTime  `json:"stageTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

type object struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		ClusterIP  string                        `json:"clusterIP"`
		ClusterIPs []string                      `json:"clusterIPs"`
		ParentRef  *networkingv1.ParentReference `json:"parentRef"`
	} `json:"spec"`
	Message string `json:"message"`
	Details struct {
		UID string `json:"uid"`
	} `json:"details"`
}

func (r record) request() Request {
	out := Request{
		Received: r.RequestReceivedTimestamp.Time, Verb: r.Verb, Resource: r.ObjectRef.Resource,
		Namespace: r.ObjectRef.Namespace, Name: r.ObjectRef.Name, User: r.User.Username,
	}
	if r.Stage == "RequestReceived" {
		return out
	}
	out.Done, out.Code, out.Message, out.Chosen = r.StageTimestamp.Time, r.ResponseStatus.Code, r.ResponseStatus.Message, chosenBy(r.Annotations)
	var asked object
	_ = json.Unmarshal(r.RequestObject, &asked) // a patch may be a list, or no JSON at all
	out.Name = cmp.Or(out.Name, asked.Metadata.Name)
	out.Asked = append(addresses(append(asked.Spec.ClusterIPs, asked.Spec.ClusterIP)), given(r.Annotations)...)
	if o := r.ResponseObject; o != nil {
		out.Message = cmp.Or(out.Message, o.Message)
		if out.Granted() {
			out.Answer = o.read(r.ObjectRef.Resource, r.Verb)
			out.Name = cmp.Or(out.Name, o.Metadata.Name)
		}
	}
	return out
}

// read reads the object of an answer that was granted.
func (o *object) read(resource, verb string) *Object {
	if o.Kind == "Status" {
		return &Object{UID: o.Details.UID, Ends: verb == "delete"}
	}
	out := Object{UID: string(o.Metadata.UID), Name: o.Metadata.Name, Created: o.Metadata.CreationTimestamp.Time}
	out.Version, _ = strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	deleted := verb == "delete" || o.Metadata.DeletionTimestamp != nil
	out.Ends = deleted && len(o.Metadata.Finalizers) == 0
	if resource == "services" {
		out.Name = o.Metadata.Namespace + "/" + o.Metadata.Name
		out.Addresses = addresses(o.Spec.ClusterIPs)
	} else {
		out.Parent, out.Beside = parent(o.Spec.ParentRef), beside(o.Metadata)
	}
	return &out
}

// parent is what an IPAddress names.
func parent(p *networkingv1.ParentReference) string {
	switch {
	case p == nil:
		return "nothing"
	case p.Group == "" && p.Resource == "services":
		return p.Namespace + "/" + p.Name
	default:
		return strings.Trim(p.Resource+" "+p.Namespace+"/"+p.Name, "/")
	}
}

// beside reports whether an IPAddress is no ClusterIP: one that is additional or former, or kept.
func beside(m metav1.ObjectMeta) bool {
	return m.Labels[networkingv1.LabelManagedBy] != "ipallocator.k8s.io" || len(m.Finalizers) > 0
}

// given are the addresses that webhooks wrote into a Service, by the annotations that an API server
// makes of their patches.
func given(annotations map[string]string) (out []netip.Addr) {
	for name, text := range annotations {
		if !strings.HasPrefix(name, "patch.webhook.admission.k8s.io/") {
			continue
		}
		var patches struct {
			Patch []struct {
				Path  string          `json:"path"`
				Value json.RawMessage `json:"value"`
			} `json:"patch"`
		}
		_ = json.Unmarshal([]byte(text), &patches)
		for _, p := range patches.Patch {
			var one string
			var many []string
			if strings.HasPrefix(p.Path, "/spec/clusterIP") {
				_, _ = json.Unmarshal(p.Value, &one), json.Unmarshal(p.Value, &many)
				out = append(out, addresses(append(many, one))...)
			}
		}
	}
	return out
}

// chosenBy reads the annotations that an API server makes for mutating webhooks.
func chosenBy(annotations map[string]string) string {
	chosen := ByAPIServer
	for name, text := range annotations {
		switch {
		case strings.HasPrefix(name, "mutation.webhook.admission.k8s.io/") && strings.Contains(text, `"mutated":true`):
			return ByWebhook // also if it was asked once more and did not answer
		case strings.HasPrefix(name, "failed-open.mutation.webhook.admission.k8s.io/"):
			chosen = FailedOpen
		}
	}
	return chosen
}

// addresses are the clusterIPs that are addresses: none of a headless Service.
func addresses(texts []string) (out []netip.Addr) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
