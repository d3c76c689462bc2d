package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"
	"sync/atomic"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// files is a certificate that somebody else mounts and renews. The files may come later than we do.
type files struct {
	dir     string
	log     logr.Logger
	watcher atomic.Pointer[certwatcher.CertWatcher]
}

// NeedLeaderElection is false: every replica serves.
func (f *files) NeedLeaderElection() bool { return false }

// Start waits for the files, and follows them.
func (f *files) Start(ctx context.Context) error { return persist(ctx, f.log, f.follow) }

func (f *files) follow(ctx context.Context) error {
	watcher, err := certwatcher.New(filepath.Join(f.dir, certKey), filepath.Join(f.dir, keyKey))
	if err != nil {
		return err
	}
	f.watcher.Store(watcher)
	return watcher.Start(ctx)
}

// GetCertificate returns what was read last.
func (f *files) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	watcher := f.watcher.Load()
	if watcher == nil {
		return nil, errors.New("there is no certificate in " + f.dir + " yet")
	}
	return watcher.GetCertificate(hello)
}
