package timeline

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// askWithin is how long the API server may take to tell a version: one object without its content.
const askWithin = 10 * time.Second

// Wrap is for rest.Config.Wrap. Before a list or watch that begins at a version, it asks the API
// server for the present version of the resource. An informer begins so when it connects again,
// after minutes or an outage, and so only after an API server has started on the restored etcd:
// only that one has another version to tell.
func (g *Guard) Wrap(next http.RoundTripper) http.RoundTripper { return transport{g, next} }

type transport struct {
	*Guard
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper. If the API server does not answer with the present
// version (it may not have read its storage yet), that answer becomes the answer to the request,
// which is then repeated: a watch let through unproven would not be checked again before it ends.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if proof := t.Proof(); proof != nil {
		return nil, proof
	}
	from := r.URL.Query().Get("resourceVersion")
	if r.Method != http.MethodGet || from == "" || from == "0" {
		return t.next.RoundTrip(r)
	}
	now, refused, err := t.version(r)
	if refused != nil || err != nil {
		return refused, err
	}
	if proof := t.Compare(r.URL.Path, from, now); proof != nil {
		return nil, proof
	}
	return t.next.RoundTrip(r)
}

// version asks for the version of the resource that a request is about. An answer without it is
// returned as it came.
func (t transport) version(r *http.Request) (version string, refused *http.Response, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	answer, err := t.next.RoundTrip(ask(ctx, r))
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("asking for the version of %s: %w", r.URL.Path, err)
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body = body{answer.Body, cancel}
		return "", answer, nil
	}
	defer cancel()
	defer func() { _ = answer.Body.Close() }()
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return "", nil, fmt.Errorf("reading the version of %s: %w", r.URL.Path, err)
	}
	return list.Metadata.ResourceVersion, nil, nil
}

// ask returns a list request for one object's metadata, of the same resource and namespace, with
// the request's credentials. It keeps the field selector, on which permissions may depend, but not
// the label selector, which may match nothing for long.
func ask(ctx context.Context, r *http.Request) *http.Request {
	list := r.Clone(ctx)
	list.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	query := list.URL.Query()
	fields := query["fieldSelector"]
	clear(query)
	query.Set("limit", "1")
	if len(fields) > 0 {
		query["fieldSelector"] = fields
	}
	list.URL.RawQuery = query.Encode()
	return list
}

// body frees the context of a request once its answer is read.
type body struct {
	io.ReadCloser
	done context.CancelFunc
}

// Close implements io.Closer.
func (b body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
