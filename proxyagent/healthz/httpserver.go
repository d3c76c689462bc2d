package healthz

import (
	"io"
	"log"
	"net/http"
	"time"
)

// newHTTPServer returns a server whose clients can neither dawdle nor send much: probes are short, and these ports are open to
// whoever reaches the node.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
}
