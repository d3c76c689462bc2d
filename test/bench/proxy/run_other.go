//go:build !linux

package proxy

import (
	"context"
	"errors"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
)

// Run is for Linux alone.
func Run(context.Context, Options, *progress.Log) (Result, error) {
	return Result{}, errors.New("network namespaces and iptables are of Linux")
}
