//go:build !linux

package framework

import "syscall"

// childAttributes puts the child into a process group of its own, so that Ctrl-C reaches the parent alone and
// the parent ends its children in order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
