package framework

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAskIsContentWithOKAlone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ready" {
			http.Error(w, "caches are not synced", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if err := askOK(t.Context(), plainClient(), server.URL+"/ready"); err != nil {
		t.Error(err)
	}
	err := askOK(t.Context(), plainClient(), server.URL+"/late")
	wantErrorWith(t, err, server.URL, "503", "caches are not synced")
}
