package steering

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
)

func TestProfile(t *testing.T) {
	if os.Getenv("BENCH_PROFILE") == "" {
		t.Skip()
	}
	t.Chdir("../../..")
	ctx := t.Context()
	b, err := start(ctx, progress.New(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Stop() }()
	for _, on := range []bool{true, false, true, false} {
		if err := b.ask(ctx, on); err != nil {
			t.Fatal(err)
		}
		w := work{Load: load.Load{Workers: 16, Count: 600}, one: b.create(nil)}
		w.after = b.removeAll(600)
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(700 * time.Millisecond) // settle
			out, err := b.Client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", "4").DoRaw(context.Background())
			fmt.Fprintln(os.Stderr, "profile", len(out), err)
			_ = os.WriteFile(fmt.Sprintf("/tmp/bench/api-%t.prof", on), out, 0o644)
		}()
		tn, err := b.take(ctx, w)
		<-done
		if err != nil {
			t.Fatal(err)
		}
		ts := turns{tn}
		fmt.Fprintf(os.Stderr, "on=%t rate %.0f p50 %.2f p99 %.2f cpu api %.2f mgr %.2f etcd %.2f ms\n", on, tn.PerSecond(), tn.Latencies.Median(), tn.Latencies.Quantile(.99),
			ts.perCall(func(t turn) time.Duration { return t.API }), ts.perCall(func(t turn) time.Duration { return t.Managers }), ts.perCall(func(t turn) time.Duration { return t.Etcd }))
		if on {
			m, _ := b.replicas[0].Metrics(ctx)
			n, _ := m.Value("clusterip_operator_admission_duration_seconds_count")
			s, _ := m.Value("clusterip_operator_admission_duration_seconds_sum")
			fmt.Fprintf(os.Stderr, "handler: %.0f us mean over %.0f; webhook latency: ", s/n*1e6, n)
			fmt.Fprintln(os.Stderr, b.balancer.Connections()); fmt.Fprintln(os.Stderr, m.Text("clusterip_operator_admission"))
			text, _ := b.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
			_ = os.WriteFile("/tmp/bench/api-metrics.txt", text, 0o644)
		}
	}
}
