package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Media types of bodies.
const (
	JSON       = "application/json"
	Protobuf   = "application/vnd.kubernetes.protobuf"
	MergePatch = "application/merge-patch+json"
	ApplyPatch = "application/apply-patch+yaml"
)

// requestTimeout is how long a tenant waits for an answer: longer than an API server with a slow
// webhook takes.
const requestTimeout = time.Minute

// Tenant is the user. Its methods may be called concurrently.
type Tenant struct {
	// Namespace is where it may write Services, and its name as a user.
	Namespace string
	// Client is the same user for what a well-behaved client can write.
	Client kubernetes.Interface

	url  string
	http *http.Client
}

// New creates a namespace with labels, which may be nil, and the user of that name with its rights,
// and waits until the API server grants them.
func New(ctx context.Context, c *cluster.Cluster, namespace string, labels map[string]string) *Tenant {
	GinkgoHelper()
	c.CreateNamespace(ctx, namespace, labels)
	c.Kubectl(ctx, "create", "role", "tenant", "-n", namespace, "--verb=create,update,patch,delete", "--resource=services")
	c.Kubectl(ctx, "create", "rolebinding", "tenant", "-n", namespace, "--role=tenant", "--user="+namespace)
	config := suite.Must(c.ConfigForUser(namespace))
	config.WarningHandler = rest.NoWarnings{}
	t := &Tenant{Namespace: namespace, url: config.Host}
	t.http = suite.Must(rest.HTTPClientFor(config))
	t.http.Timeout = requestTimeout
	t.Client = suite.Must(kubernetes.NewForConfig(config))
	Eventually(func() int {
		return t.DryRun(ctx, Service{"metadata": Fields{"name": "rights"}, "spec": Fields{"clusterIP": "None"}}).Code
	}).
		Should(Equal(http.StatusCreated), "RBAC follows what is written")
	return t
}

// Fields are a part of an object, as JSON has it.
type Fields = map[string]any

// Service is a Service as JSON has it, in whatever way it is wrong.
type Service Fields

// Answer is what an API server said.
type Answer struct {
	// Code is the HTTP status, 0 where there was no answer: the API server closed the connection,
	// or the tenant has given up.
	Code int
	// Body is the object, or the Status that says why there is none. It is cut.
	Body string
	// Warnings are those of the answer.
	Warnings []string
}

// Text is all that a tenant can read of an answer.
func (a Answer) Text() string { return fmt.Sprint(a.Body, a.Warnings) }

// ClusterIP is the first address of the Service that was answered with, empty if there is none.
func (a Answer) ClusterIP() string {
	var s corev1.Service
	_ = json.Unmarshal([]byte(a.Body), &s) // a Status has none
	return s.Spec.ClusterIP
}

// Stored reports whether the API server did what was asked for.
func (a Answer) Stored() bool { return a.Code >= 200 && a.Code < 300 }

// shownOfAnswers bounds what is kept of an answer: some of the answers repeat what was sent.
const shownOfAnswers = 16 << 10

// Send sends bytes to a path below the Services of the namespace. query may be empty.
func (t *Tenant) Send(ctx context.Context, method, name, query, mediaType string, body []byte) Answer {
	path := t.url + "/api/v1/namespaces/" + t.Namespace + "/services"
	if name != "" {
		path += "/" + name
	}
	request, err := http.NewRequestWithContext(ctx, method, path+"?"+query, bytes.NewReader(body))
	if err != nil {
		return Answer{Body: err.Error()}
	}
	request.Header.Set("Content-Type", mediaType)
	request.Header.Set("Accept", JSON)
	response, err := t.http.Do(request)
	if err != nil {
		return Answer{Body: err.Error()}
	}
	defer response.Body.Close() //nolint:errcheck // it is read to its end below
	text, _ := io.ReadAll(io.LimitReader(response.Body, shownOfAnswers))
	_, _ = io.Copy(io.Discard, response.Body) // the connection is used again
	return Answer{Code: response.StatusCode, Body: string(text), Warnings: response.Header.Values("Warning")}
}

// Create asks for a Service.
func (t *Tenant) Create(ctx context.Context, s Service) Answer {
	return t.Send(ctx, http.MethodPost, "", "", JSON, encode(s))
}

// DryRun asks what would become of a Service.
func (t *Tenant) DryRun(ctx context.Context, s Service) Answer {
	return t.Send(ctx, http.MethodPost, "", "dryRun=All", JSON, encode(s))
}

// Replace writes a Service over the one of its name.
func (t *Tenant) Replace(ctx context.Context, name string, s Service) Answer {
	return t.Send(ctx, http.MethodPut, name, "", JSON, encode(s))
}

// Merge merges fields into a Service.
func (t *Tenant) Merge(ctx context.Context, name string, fields Fields) Answer {
	return t.Send(ctx, http.MethodPatch, name, "", MergePatch, encode(fields))
}

// Apply has the API server merge a Service, and create it if there is none.
func (t *Tenant) Apply(ctx context.Context, name string, s Service) Answer {
	return t.Send(ctx, http.MethodPatch, name, "fieldManager=tenant&force=true", ApplyPatch, encode(s))
}

// Delete deletes a Service.
func (t *Tenant) Delete(ctx context.Context, name string) Answer {
	return t.Send(ctx, http.MethodDelete, name, "", JSON, nil)
}

// EncodeProtobuf encodes a Service for the API server.
func EncodeProtobuf(s *corev1.Service) []byte {
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err) // types of Kubernetes
	}
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(s, &out); err != nil {
		panic(err) // a struct of strings and numbers
	}
	return out.Bytes()
}

// encode never fails: what a tenant sends is made of strings, numbers, lists and maps.
func encode(what any) []byte {
	text, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	return text
}
