package steering

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/test/bench/micro"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
)

// decisions is the package with the benchmarks of decisions: controllers/admission/speed_test.go.
const decisions = "./controllers/admission"

// Decision is what the micro benchmarks printed.
type Decision struct {
	Decisions, Compile micro.Output
}

// measureDecision runs the micro benchmarks in a process of their own.
func measureDecision(ctx context.Context, o Options, log *progress.Log) (d Decision, err error) {
	log.Step("micro benchmarks of %s", decisions)
	var complaint strings.Builder
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=^Benchmark(Decision|Compile)$", "-benchmem",
		"-benchtime="+o.Bench.String(), "-count="+strconv.Itoa(o.Repeats), decisions)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return d, fmt.Errorf("running the benchmarks of %s: %w: %s%s", decisions, err, out, complaint.String())
	}
	for name, into := range map[string]*micro.Output{"Decision": &d.Decisions, "Compile": &d.Compile} {
		if err := into.Read(bytes.NewReader(out), name); err != nil {
			return d, err
		}
	}
	return d, nil
}
