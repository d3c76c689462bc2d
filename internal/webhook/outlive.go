package webhook

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// server answers what it has begun to answer, also when the manager ends: the server of
// controller-runtime makes the contexts of requests of its own. It waits for them, but as soon as
// it is told to stop their contexts end, and a Service that was being steered would pass unsteered.
type server struct {
	webhook.Server
	running context.Context // since Start
}

// Register implements webhook.Server.
func (s *server) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancel(context.WithoutCancel(r.Context()))
		defer end()
		defer context.AfterFunc(r.Context(), func() {
			if s.running.Err() == nil { // the client has hung up
				end()
			}
		})()
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
}

// Start implements manager.Runnable.
func (s *server) Start(ctx context.Context) error {
	s.running = ctx
	return s.Server.Start(ctx)
}
