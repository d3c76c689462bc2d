package migration

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/go-logr/logr"
)

// prefixMasterLeases is where each API server renews a key with a lease, by its address, as long as it runs.
const prefixMasterLeases = "masterleases/"

// leaseLasts is how long such a key outlives an API server that was killed.
const leaseLasts = 15 * time.Second

// NoneAlive makes sure that no API server runs on this etcd. It waits for the leases of those that were killed, and returns an error
// that names those which go on.
func NoneAlive(ctx context.Context, store Store) error {
	for deadline := time.Now().Add(leaseLasts + 5*time.Second); ; {
		alive, err := alive(ctx, store)
		switch {
		case err != nil:
			return fmt.Errorf("looking for API servers that run: %w", err)
		case len(alive) == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("an API server runs at %s, which renews its key below %s in etcd: stop it first, or leave out --offline", strings.Join(alive, " and "), prefixMasterLeases)
		}
		logr.FromContextOrDiscard(ctx).V(1).Info("Waiting for the leases of API servers to expire", "servers", alive)
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// alive are the addresses of the API servers that run, or did moments ago.
func alive(ctx context.Context, store Store) (out []string, err error) {
	_, err = store.List(ctx, prefixMasterLeases, 0, func(v Value) error {
		out = append(out, path.Base(v.Key))
		return nil
	})
	return out, err
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
