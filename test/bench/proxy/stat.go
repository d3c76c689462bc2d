package proxy

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// tick is the unit of times in /proc.
const tick = 10 * time.Millisecond

// Indexes of fields in the stat of a process in /proc, counted behind its name.
const (
	fieldUser     = 11 // followed by its time in the kernel, and both again for the children that it has waited for
	fieldChildren = 14
	fieldStart    = 19 // since the start of the machine
)

// statFields reads the stat of a process. The second field, the name in parentheses, may hold anything and is left out with what stands
// before.
func statFields(stat []byte) (fields []time.Duration, err error) {
	all := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(all) <= fieldStart {
		return nil, fmt.Errorf("%q is too short for the stat of a process", stat)
	}
	for i, field := range all[:fieldStart+1] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil && i > 0 { // the first is a letter
			return nil, fmt.Errorf("reading the stat of a process: %w", err)
		}
		fields = append(fields, time.Duration(n)*tick)
	}
	return fields, nil
}

// used is the processor time of a process with its children.
func used(fields []time.Duration) (sum time.Duration) {
	for _, field := range fields[fieldUser : fieldChildren+1] {
		sum += field
	}
	return sum
}
