package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

// Exit statuses, which are the same for every command: all is well or done, something is to be done
// about the cluster, and it could not be told or nothing was done.
const (
	ExitDone     = 0
	ExitFindings = 1
	ExitUnknown  = 2
)

// Exit is how a command ends with another status than 2. Its error is printed if there is one.
type Exit struct {
	Code int
	Err  error
}

// Error implements error.
func (e Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap implements errors.Unwrap.
func (e Exit) Unwrap() error { return e.Err }

// ExitCode returns the status that a command ends with, which is ExitUnknown unless the error is or
// wraps an Exit, and prints the error in one line: several that were joined stand one behind the
// other.
func ExitCode(err error, out Streams) int {
	if err == nil {
		return ExitDone
	}
	code, told := ExitUnknown, err
	if e, ok := errors.AsType[Exit](err); ok {
		code, told = e.Code, e.Err
	}
	if told != nil {
		Write(out.ErrOut, "error: %s\n", oneLine(told.Error()))
	}
	return code
}

// mostTold is how many bytes of an error are told: what a user wrote is part of some.
const mostTold = 2000

// oneLine is a text without line breaks, of mostTold bytes.
func oneLine(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return wording.Cut(strings.Join(parts, "; "), mostTold)
}
