//go:build linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func newTrace() *cobra.Command {
	return &cobra.Command{
		Use: "trace SRC DST:PORT", Short: "Walk the rules that are in the kernel.", Args: cobra.ExactArgs(2),
		RunE: func(*cobra.Command, []string) error { return errors.New("not there yet") },
	}
}
