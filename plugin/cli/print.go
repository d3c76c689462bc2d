package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
)

// Streams are where a command writes.
type Streams struct{ Out, ErrOut io.Writer }

// Write prints into a buffer; the caller that flushes gets the error. No output steers a terminal.
func Write(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, plain.Lines(fmt.Sprintf(format, args...)))
}

// Say prints a line of the result. It drops the error of a pipe that no program reads any more.
func (s Streams) Say(format string, args ...any) { Write(s.Out, format+"\n", args...) }

// Logging returns ctx with a logger of plain lines on stderr, for people. Libraries use it as well.
func (s Streams) Logging(ctx context.Context) context.Context {
	log := funcr.New(func(prefix, args string) {
		Write(s.ErrOut, "%s\n", strings.TrimSpace(prefix+" "+args))
	}, funcr.Options{})
	klog.SetLogger(log)
	ctrl.SetLogger(log)
	return logr.NewContext(ctx, log)
}

// Put prints a value, as a table or for programs, or writes it into the file that output names.
func (s Streams) Put(output string, value any, table func(io.Writer)) (err error) {
	if PlanFile(output) {
		if err := batch.Save(output, value); err != nil {
			return fmt.Errorf("writing the plan: %w", err)
		}
		return nil
	}
	w := bufio.NewWriter(s.Out)
	if AsTable(output) {
		table(w)
	} else {
		err = Encode(w, value, output)
	}
	if err == nil {
		err = w.Flush()
	}
	return err
}
