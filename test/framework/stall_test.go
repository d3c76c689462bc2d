package framework

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that is stopped takes that for a machine which stands still, one that runs does not.
func TestWatchStalls(t *testing.T) {
	if os.Getenv("STALLS") != "" {
		end := WatchStalls()
		_, _ = os.Stdout.WriteString("watching\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		_, _ = os.Stdout.WriteString(end().String() + "\n")
		return
	}
	for _, stop := range []time.Duration{0, 2 * stall} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWatchStalls$")
		child.Env = append(os.Environ(), "STALLS=yes")
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		_, _ = lines.ReadString('\n')
		if stop > 0 {
			_ = child.Process.Signal(syscall.SIGSTOP)
			time.Sleep(stop)
			_ = child.Process.Signal(syscall.SIGCONT)
		}
		_ = in.Close()
		line, _ := lines.ReadString('\n')
		got, err := time.ParseDuration(strings.TrimSpace(line))
		if err != nil || stop > 0 && got < stall || stop == 0 && got > stall*10 {
			t.Errorf("stopped for %s, it says %q", stop, line)
		}
		_ = child.Wait()
	}
}
