package timeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	for _, tc := range []struct {
		name, seen, told string
		back             bool
	}{
		{"newer", "9", "10", false}, {"the same", "10", "10", false}, {"older", "10", "9", true},
		{"older, as a text newer", "100", "99", true},
		{"longer than any integer", "99999999999999999999", "99999999999999999998", true},
		{"nothing was seen", "", "9", false},
		{"nothing is told", "9", "", false},
		{"no version", "9", "0", false},
		{"no number", "9", "x", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, ctx := NewGuard(t.Context())
			proof := g.Compare("services", tc.seen, tc.told)
			if (proof != nil) != tc.back || (ctx.Err() != nil) != tc.back || (g.Proof() != nil) != tc.back {
				t.Errorf("proof %v, context %v, want a proof: %t", proof, ctx.Err(), tc.back)
			}
			if tc.back && !errors.Is(context.Cause(ctx), proof) {
				t.Errorf("the cause is %v, want the proof", context.Cause(ctx))
			}
		})
	}
}

// apiServer answers lists with a version and counts what it is asked.
type apiServer struct {
	version string
	status  int
	asked   []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	if r.URL.Query().Get("limit") == "1" {
		w.WriteHeader(s.status)
		_, _ = fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":%q}}`, s.version)
	}
}

func TestWatchesBeginWhereTheAPIServerIs(t *testing.T) {
	const watch = "GET /api/v1/services?watch=true&resourceVersion=500&labelSelector=a&fieldSelector=b"
	const question = "GET /api/v1/services?fieldSelector=b&limit=1"
	for _, tc := range []struct {
		name, request, version string
		status                 int
		asked                  []string
		answer                 int
		back                   bool
	}{
		{name: "the version is newer", request: watch, version: "501", asked: []string{question, watch}},
		{name: "it is the same", request: watch, version: "500", asked: []string{question, watch}},
		{name: "it is older", request: watch, version: "499", asked: []string{question}, back: true},
		{name: "the API server does not know yet", request: watch, version: "499", status: 429, asked: []string{question}, answer: 429},
		{name: "a list from a version", request: "GET /api/v1/services?resourceVersion=500", version: "499", asked: []string{"GET /api/v1/services?limit=1"}, back: true},
		{name: "a watch from anywhere", request: "GET /api/v1/services?watch=true&resourceVersion=0", version: "1", asked: []string{"GET /api/v1/services?watch=true&resourceVersion=0"}},
		{name: "a list of what there is", request: "GET /api/v1/services", version: "1", asked: []string{"GET /api/v1/services"}},
		{name: "a write", request: "DELETE /api/v1/services?resourceVersion=500", version: "1", asked: []string{"DELETE /api/v1/services?resourceVersion=500"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			served := &apiServer{version: tc.version, status: max(tc.status, http.StatusOK)}
			server := httptest.NewServer(served)
			defer server.Close()
			g, _ := NewGuard(t.Context())
			send := func() (int, error) {
				var method, path string
				if _, err := fmt.Sscan(tc.request, &method, &path); err != nil {
					t.Fatal(err)
				}
				request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := g.Wrap(http.DefaultTransport).RoundTrip(request)
				if err != nil {
					return 0, err
				}
				defer func() { _ = answer.Body.Close() }()
				_, err = io.Copy(io.Discard, answer.Body)
				return answer.StatusCode, err
			}
			status, err := send()
			if want := max(tc.answer, http.StatusOK); (err != nil) != tc.back || !tc.back && status != want {
				t.Errorf("answered %d, %v; want %d, and an error: %t", status, err, want, tc.back)
			}
			if diff := cmp.Diff(tc.asked, served.asked); diff != "" {
				t.Error("the API server was asked (-want +got):", diff)
			}
			if tc.back {
				if _, err := send(); !errors.Is(err, g.Proof()) || len(served.asked) != len(tc.asked) {
					t.Errorf("after the proof another request was sent: %v, %q", err, served.asked)
				}
			}
		})
	}
}

func TestAskKeepsCredentials(t *testing.T) {
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/x"}, Header: http.Header{"Authorization": {"Bearer t"}, "Accept": {"application/vnd.kubernetes.protobuf"}}}
	list := ask(t.Context(), r)
	if list.Header.Get("Authorization") != "Bearer t" || r.Header.Get("Accept") != "application/vnd.kubernetes.protobuf" {
		t.Errorf("asked with %v, and the request has %v", list.Header, r.Header)
	}
}
