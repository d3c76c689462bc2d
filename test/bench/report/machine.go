package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine describes the computer as far as it tells: processors, memory and kernel.
func Machine() string {
	text := fmt.Sprintf("%d processors", runtime.NumCPU())
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		text += " (" + model + ")"
	}
	if memory := field("/proc/meminfo", "MemTotal"); memory != "" {
		text += ", " + memory + " of memory"
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		text += ", Linux " + strings.TrimSpace(string(release))
	}
	return text
}

// field returns the first value of a "name : value" file in /proc; empty where there is none.
func field(path, name string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
