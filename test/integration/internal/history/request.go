package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rules are those of an audit policy that logs what [Read] needs.
const Rules = `{level: RequestResponse, verbs: [create, update, patch, delete],
	resources: [{group: "", resources: [services]}, {group: networking.k8s.io, resources: [ipaddresses]}]}`

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
	// FailedOpen says that a webhook did not answer, and that the API server went on without it.
	FailedOpen bool
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

func (r Request) granted() bool { return r.known() && r.Code >= 200 && r.Code < 300 }

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

// Read reads one API server's log. A line that is not whole is left out: the API server is writing
// it, or was killed as it did.
func Read(log io.Reader) (all []Request, err error) {
	begun := map[string]int{} // the place in all, by the ID of the request
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return slices.DeleteFunc(all, func(r Request) bool { return r.Verb == "" }), ignoreEOF(err)
		}
		var r record
		if err := json.Unmarshal(bytes.ReplaceAll(line, []byte{0}, nil), &r); err != nil {
			if begins := bytes.LastIndex(line, []byte(`{"kind":"Event"`)); begins > 0 { // behind a torn line
				err = json.Unmarshal(line[begins:], &r)
			}
			if err != nil {
				return nil, fmt.Errorf("reading an audit event: %w: %s", err, line)
			}
		}
		if r.dry() || r.ObjectRef.Subresource != "" {
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
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("reading an audit log: %w", err)
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

func (r record) dry() bool { return strings.Contains(r.RequestURI, "dryRun=") }

func (r record) request() Request {
	out := Request{
		Received: r.RequestReceivedTimestamp.Time, Verb: r.Verb, Resource: r.ObjectRef.Resource,
		Namespace: r.ObjectRef.Namespace, Name: r.ObjectRef.Name, User: r.User.Username, Code: r.ResponseStatus.Code, Message: r.ResponseStatus.Message,
		FailedOpen: failedOpen(r.Annotations),
	}
	if r.Stage == "RequestReceived" {
		out.Code = 0
		return out
	}
	out.Done = r.StageTimestamp.Time
	var asked object
	_ = json.Unmarshal(r.RequestObject, &asked) // a patch may be a list, or no JSON at all
	out.Name = cmp.Or(out.Name, asked.Metadata.Name)
	out.Asked = append(addresses(append(asked.Spec.ClusterIPs, asked.Spec.ClusterIP)), given(r.Annotations)...)
	if o := r.ResponseObject; o != nil {
		out.Message = cmp.Or(out.Message, o.Message)
		if out.granted() {
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

// failedOpen reads the annotations that an API server makes for mutating webhooks: of one that had
// written into the Service, and was asked once more without an answer, it is false.
func failedOpen(annotations map[string]string) (is bool) {
	for name, text := range annotations {
		if strings.HasPrefix(name, "mutation.webhook.admission.k8s.io/") && strings.Contains(text, `"mutated":true`) {
			return false
		}
		is = is || strings.HasPrefix(name, "failed-open.mutation.webhook.admission.k8s.io/")
	}
	return is
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
