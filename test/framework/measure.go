package framework

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// What is measured here comes from /proc: elsewhere than on Linux it is an error.

// clockTicks is the unit of CPU times in /proc: 10 ms on every Linux architecture that Go knows.
const clockTicks = 100

// RSS returns the memory that the process occupies at this moment, in bytes.
func (p *Process) RSS() (int64, error) { return p.memory("VmRSS:") }

// PeakRSS returns the most memory that the process has occupied since its start, in bytes.
func (p *Process) PeakRSS() (int64, error) { return p.memory("VmHWM:") }

func (p *Process) memory(key string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == key {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("reading the memory of %s: no %s in /proc (has it ended?)", p.name, key)
}

// CPUTime returns the processor time that the process has used since its start, user and kernel.
func (p *Process) CPUTime() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of %s: %w", p.name, err)
	}
	// Field 2, the name in parentheses, may hold anything; utime and stime are fields 14 and 15.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("reading the CPU time of %s: %q is too short", p.name, stat)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the CPU time of %s: %w", p.name, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks, nil
}
