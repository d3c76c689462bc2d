package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	config "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
)

// newLogger logs to standard error, and makes every library do the same.
func newLogger(c config.Log) logr.Logger {
	encoder := zap.JSONEncoder(forReaders)
	if c.Format == "text" {
		encoder = zap.ConsoleEncoder(forReaders)
	}
	log := zap.New(encoder, zap.Level(zapcore.Level(-c.Level)), zap.WriteTo(os.Stderr), zap.StacktraceLevel(zapcore.PanicLevel))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	slog.SetDefault(slog.New(logr.ToSlogHandler(log))) // the standard library's log with it: net/http reports handshakes there
	return log
}

// forReaders writes times as the API does (RFC 3339), durations with their unit, and values of
// which JSON shows nothing as Go prints them.
func forReaders(c *zapcore.EncoderConfig) {
	c.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	c.EncodeDuration = zapcore.StringDurationEncoder
	c.NewReflectedEncoder = func(w io.Writer) zapcore.ReflectedEncoder {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return readable{encoder}
	}
}

// readable is a JSON encoder for values of any kind.
type readable struct{ *json.Encoder }

// Encode implements zapcore.ReflectedEncoder.
func (r readable) Encode(value any) error {
	if opaque(reflect.TypeOf(value)) {
		value = fmt.Sprintf("%+v", value)
	}
	return r.Encoder.Encode(value)
}

// opaque reports whether values of a type are structs, or lists of them, without a field that JSON
// may read: controller-runtime logs such as the statuses of its health checks, as [{},{}].
func opaque(t reflect.Type) bool {
	for t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || t.NumField() == 0 ||
		t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return false
	}
	return !slices.ContainsFunc(reflect.VisibleFields(t), reflect.StructField.IsExported)
}
