package proxy

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func readStat(pid int) ([]time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, fmt.Errorf("looking at a process: %w", err)
	}
	return statFields(stat)
}

// usage is the processor time that a process has used, with the programs that it started and that have ended.
func usage(pid int) (time.Duration, error) {
	fields, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	return used(fields), nil
}

// age is the time since a process was started, to a hundredth of a second.
func age(pid int) (time.Duration, error) {
	fields, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("reading the clock: %w", err)
	}
	return time.Duration(now.Nano()) - fields[fieldStart], nil
}
