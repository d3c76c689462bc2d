package healthz

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// bindAgainAfter is how long a port that could not be bound is left alone.
var bindAgainAfter = 5 * time.Second

// Serve answers at an address, "0" for none, until ctx ends, then returns nil with nothing left
// open. It tells failed of a port that cannot be bound and tries again: the agent serves Services.
func Serve(ctx context.Context, address string, server *http.Server, failed func(error)) error {
	if address == "0" || address == "" {
		return nil
	}
	defer func() { _ = server.Close() }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	for {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			err = server.Serve(l)
		}
		if ctx.Err() != nil {
			return nil
		}
		failed(fmt.Errorf("listening on %s: %w", address, err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(bindAgainAfter):
		}
	}
}

// newHTTPServer returns a server whose clients can neither dawdle nor send much: probes are short,
// and these ports are open to every client that reaches the node.
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
