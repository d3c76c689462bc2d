package probe

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clock that all processes of the machine share.
func Now() (Moment, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("reading the clock: %w", err)
	}
	return Moment(time.Duration(t.Nano())), nil
}
