package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// ask asks a handler of the token T for a path.
func ask(t *testing.T, method, path string, headers map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	h := handler("T", map[string]Source{
		"echo":  func(_ context.Context, q url.Values) (any, error) { return q.Get("say"), nil },
		"wrong": func(context.Context, url.Values) (any, error) { return nil, fmt.Errorf("%w: what?", ErrQuestion) },
		"away":  func(context.Context, url.Values) (any, error) { return nil, errors.New("no answer") },
	})
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Host = "127.0.0.1:1234"
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	if host := headers["Host"]; host != "" {
		r.Host = host
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path string
		headers      map[string]string
		code         int
		body         string
	}{
		"an answer":                          {"GET", "/T/api/echo?say=hi", nil, 200, `"hi"`},
		"a wrong question":                   {"GET", "/T/api/wrong", nil, 400, `{"error":"the question is wrong: what?"}`},
		"a source that fails":                {"GET", "/T/api/away", nil, 502, `{"error":"no answer"}`},
		"no such source":                     {"GET", "/T/api/none", nil, 404, "404 page not found\n"},
		"a write":                            {"POST", "/T/api/echo", nil, 405, ""},
		"without the token":                  {"GET", "/api/echo", nil, 403, ""},
		"without the slash behind the token": {"GET", "/T", nil, 403, ""},
		"under another name":                 {"GET", "/T/api/echo", map[string]string{"Host": "evil.example:1234"}, 403, ""},
		"IPv6 and a name of this machine":    {"GET", "/T/api/echo", map[string]string{"Host": "localhost:1"}, 200, `""`},
		"by the page":                        {"GET", "/T/api/echo", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:1234"}, 200, `""`},
		"by another page":                    {"GET", "/T/api/echo", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, ""},
		"by a page of another port":          {"GET", "/T/api/echo", map[string]string{"Sec-Fetch-Site": "same-site"}, 403, ""},
		"by another origin":                  {"GET", "/T/app.js", map[string]string{"Origin": "http://127.0.0.1:99"}, 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if w := ask(t, tc.method, tc.path, tc.headers); w.Code != tc.code || w.Body.String() != tc.body {
				t.Errorf("answer %d %q, want %d %q", w.Code, w.Body, tc.code, tc.body)
			}
		})
	}
}

// TestNoAnswerForAClientThatHungUp has one hang up while its question is being answered.
func TestNoAnswerForAClientThatHungUp(t *testing.T) {
	for name, fails := range map[string]bool{"an answer": false, "a failure": true} {
		t.Run(name, func(t *testing.T) {
			ctx, hangUp := context.WithCancel(t.Context())
			w := httptest.NewRecorder()
			answer(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), func(ctx context.Context, _ url.Values) (any, error) {
				hangUp()
				if fails {
					return nil, ctx.Err()
				}
				return "late", nil
			})
			if w.Body.Len() > 0 || len(w.Header()) > 0 {
				t.Errorf("answer %d %v %q", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// TestThePageOpens has a link in a terminal, or a file, lead to it.
func TestThePageOpens(t *testing.T) {
	w := ask(t, "GET", "/T/", map[string]string{"Sec-Fetch-Site": "cross-site"})
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<!doctype html>") {
		t.Errorf("answer %d %q", w.Code, w.Body)
	}
	for _, piece := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), piece) {
			t.Errorf("the policy lacks %s", piece)
		}
	}
	if cookie := w.Header().Get("Set-Cookie"); cookie != "" {
		t.Errorf("a cookie: %s", cookie)
	}
}

func TestWhatThePageHasIsNotSentAgain(t *testing.T) {
	tag := ask(t, "GET", "/T/api/echo?say=a", nil).Header().Get("ETag")
	if w := ask(t, "GET", "/T/api/echo?say=a", map[string]string{"If-None-Match": tag}); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("answer %d %q", w.Code, w.Body)
	}
	if w := ask(t, "GET", "/T/api/echo?say=b", map[string]string{"If-None-Match": tag}); w.Code != http.StatusOK {
		t.Errorf("answer %d", w.Code)
	}
}
