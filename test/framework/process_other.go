//go:build !linux

package framework

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// childAttributes puts the child into a process group of its own, so that Ctrl-C reaches the parent alone and
// the parent ends its children in order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// RSS is known on Linux alone.
func (p *Process) RSS() (int64, error) { return 0, p.unmeasured() }

// PeakRSS is known on Linux alone.
func (p *Process) PeakRSS() (int64, error) { return 0, p.unmeasured() }

// CPUTime is known on Linux alone.
func (p *Process) CPUTime() (time.Duration, error) { return 0, p.unmeasured() }

func (p *Process) unmeasured() error {
	return fmt.Errorf("measuring %s: %w on this operating system", p.name, errors.ErrUnsupported)
}
