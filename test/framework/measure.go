package framework

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// What is measured here comes from /proc: elsewhere than on Linux it is an error.

// RSS returns the memory that the process occupies at this moment, in bytes.
func (p *Process) RSS() (int64, error) {
	return p.memory(func(s procfs.ProcStatus) uint64 { return s.VmRSS })
}

// PeakRSS returns the most memory that the process has occupied since its start, in bytes.
func (p *Process) PeakRSS() (int64, error) {
	return p.memory(func(s procfs.ProcStatus) uint64 { return s.VmHWM })
}

func (p *Process) memory(of func(procfs.ProcStatus) uint64) (int64, error) {
	status, err := read(p, procfs.Proc.NewStatus)
	if err != nil {
		return 0, err
	}
	bytes := of(status)
	if bytes == 0 {
		return 0, fmt.Errorf("measuring %s: /proc knows no memory of it (has it ended?)", p.name)
	}
	return int64(bytes), nil
}

// CPUTime returns the processor time that the process has used since its start, user and kernel.
func (p *Process) CPUTime() (time.Duration, error) {
	stat, err := read(p, procfs.Proc.Stat)
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// read reads a file of the process in /proc.
func read[T any](p *Process, file func(procfs.Proc) (T, error)) (content T, err error) {
	proc, err := procfs.NewProc(p.Pid())
	if err == nil {
		content, err = file(proc)
	}
	if err != nil {
		return content, fmt.Errorf("measuring %s: %w", p.name, err)
	}
	return content, nil
}
