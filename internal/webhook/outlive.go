package webhook

import (
	"context"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// server loses no request when the manager ends. That of controller-runtime closes idle connections
// at once, into which an API server may be writing a request, and ends the contexts of requests
// that it has begun to answer: either way a Service would pass unsteered.
type server struct {
	webhook.Server
	running, serving context.Context // since Start
}

// draining is how long requests are still taken when the manager ends, each as the last one of its
// connection. An API server that creates Services has used all of its connections by then.
const draining = time.Second

// Register implements webhook.Server.
func (s *server) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.running.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		ctx, end := context.WithCancel(context.WithoutCancel(r.Context()))
		defer end()
		defer context.AfterFunc(r.Context(), func() {
			if s.serving.Err() == nil { // the client has hung up
				end()
			}
		})()
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
}

// Start implements manager.Runnable.
func (s *server) Start(ctx context.Context) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(draining, end) })()
	s.running, s.serving = ctx, serving
	return s.Server.Start(serving)
}
