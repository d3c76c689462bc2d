//go:build !linux

package main

import (
	"context"
	"errors"
)

func prepareNodes(context.Context) error { return errors.New("nodes need Linux") }

func (*tour) onNodes() []step { return nil }
