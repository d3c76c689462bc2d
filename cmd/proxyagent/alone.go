//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

const (
	// aloneSocket is an abstract one: the kernel has one space of names for each network namespace, and frees a name with its process.
	aloneSocket = "@clusterip-proxyagent"
	// alonePatience is how long an agent may take to end that is replaced.
	alonePatience = 15 * time.Second
)

// beAlone waits until no other agent runs in this network namespace, and keeps others away until it is closed. Two agents would take away each
// other's rules for ever.
func beAlone(ctx context.Context) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(ctx, alonePatience)
	defer cancel()
	for {
		listener, err := net.Listen("unix", aloneSocket)
		if err == nil {
			return listener, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("making sure that no other agent runs here: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another proxyagent runs in this network namespace: stop it first, two would take away each other's rules")
		case <-time.After(100 * time.Millisecond):
		}
	}
}
