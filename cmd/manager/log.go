package main

import (
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	config "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
)

// newLogger logs to standard error, and makes every library do the same.
func newLogger(c config.Log) logr.Logger {
	encoder := zap.JSONEncoder()
	if c.Format == "text" {
		encoder = zap.ConsoleEncoder()
	}
	log := zap.New(encoder, zap.Level(zapcore.Level(-c.Level)), zap.WriteTo(os.Stderr), zap.StacktraceLevel(zapcore.PanicLevel))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	slog.SetDefault(slog.New(logr.ToSlogHandler(log))) // the standard library's log with it: net/http reports handshakes there
	return log
}
