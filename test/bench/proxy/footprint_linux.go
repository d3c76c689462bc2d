package proxy

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// footprint looks at what the proxy has in the kernel.
func (b *bench) footprint(ctx context.Context, s *stand) error {
	if s.who.Variant == "" {
		list, err := s.bed.Node.Run(ctx, "nft", "list", "ruleset")
		s.Footprint = weighTables(list)
		return err
	}
	save, err := s.bed.Node.Run(ctx, b.tool(s.who.Variant)+"-save")
	if err != nil {
		return err
	}
	s.Footprint = weigh(save)
	sets, err := s.bed.Node.Run(ctx, "ipset", "save")
	s.Footprint.weighSets(sets)
	return err
}

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
