package sysctl

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Cores returns how many cores the machine has online, read below sysfs, which is /sys when empty. Where that cannot be read it is
// how many the process may use, which may be fewer than the machine has.
func Cores(sysfs string) int {
	if sysfs == "" {
		sysfs = "/sys"
	}
	text, err := os.ReadFile(filepath.Join(sysfs, "devices/system/cpu/online"))
	if err != nil {
		return runtime.NumCPU()
	}
	if n := countCores(strings.TrimSpace(string(text))); n > 0 {
		return n
	}
	return runtime.NumCPU()
}

// countCores counts the numbers in a list of ranges like 0-3,8; zero for anything else.
func countCores(list string) (n int) {
	for r := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 31)
		to, err2 := strconv.ParseUint(last, 10, 31)
		if err1 != nil || err2 != nil || to < from {
			return 0
		}
		n += int(to-from) + 1
	}
	return n
}
