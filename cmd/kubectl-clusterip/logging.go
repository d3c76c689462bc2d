package main

import (
	"context"
	"strings"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// logging returns ctx with a logger that writes plain lines for people to stderr. Libraries log there as well.
func (m *migrate) logging(ctx context.Context) context.Context {
	log := funcr.New(func(prefix, args string) {
		write(m.ErrOut, "%s\n", strings.TrimSpace(prefix+" "+args))
	}, funcr.Options{})
	klog.SetLogger(log)
	ctrl.SetLogger(log)
	return logr.NewContext(ctx, log)
}
