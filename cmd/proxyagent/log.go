//go:build linux

package main

import (
	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"

	v1alpha1 "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
)

// newLogger writes to standard error, and takes in what client-go logs.
func newLogger(l v1alpha1.Log) logr.Logger {
	c := zap.NewProductionConfig()
	c.Sampling, c.DisableStacktrace, c.DisableCaller = nil, true, true
	c.Level = zap.NewAtomicLevelAt(zapcore.Level(-min(l.Level, 127)))
	c.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	if l.Format == "text" {
		c.Encoding = "console"
	}
	z, err := c.Build()
	if err != nil {
		z = zap.NewNop() // only a sink that cannot be opened fails, and standard error can
	}
	log := zapr.NewLogger(z)
	klog.SetLogger(log)
	return log
}
