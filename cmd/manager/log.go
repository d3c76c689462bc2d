package main

import (
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	uberzap "go.uber.org/zap"
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
	log := zap.New(encoder, zap.Level(zapcore.Level(-c.Level)), zap.WriteTo(os.Stderr), zap.StacktraceLevel(zapcore.PanicLevel),
		zap.RawZapOpts(uberzap.WrapCore(func(core zapcore.Core) zapcore.Core { return quiet{core} })))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	slog.SetDefault(slog.New(logr.ToSlogHandler(log))) // the standard library's log with it: net/http reports handshakes there
	return log
}

// chatty is the logger of cert-controller. It tells each look at a certificate, and takes it for an error when another replica has been
// faster, which is how replicas share the work.
const chatty = "cert-rotation"

// quiet lowers what the chatty one says by a level: errors to news, news to what is only told with --log-level.
type quiet struct{ zapcore.Core }

// With adds fields.
func (q quiet) With(fields []zapcore.Field) zapcore.Core { return quiet{q.Core.With(fields)} }

// Check decides by the lowered level.
func (q quiet) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.LoggerName == chatty {
		entry.Level--
		if entry.Level == zapcore.WarnLevel {
			entry.Level = zapcore.InfoLevel
		}
	}
	return q.Core.Check(entry, checked)
}
