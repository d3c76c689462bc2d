package steering

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// What a decision about a Service may be, the label result of admission_decisions_total.
const (
	Filled  = "filled"
	Refused = "refused"
	Left    = "left"
	Failed  = "failed"
	// HandedOn is counted by who was asked, and one of the others by the leader, who answered.
	HandedOn = "handed-on"
)

// EachMetric returns a metric of each replica that runs: the sum of its series of this name (after the prefix clusterip_operator_)
// that carry the labels (name, value, name, value...), 0 if there is none.
func (b *Bed) EachMetric(ctx context.Context, name string, labels ...string) (values []float64) {
	GinkgoHelper()
	for _, replica := range b.Replicas() {
		metrics, err := replica.Metrics(ctx)
		Expect(err).NotTo(HaveOccurred())
		value, _ := metrics.Value("clusterip_operator_"+name, labels...)
		values = append(values, value)
	}
	return values
}

// SumMetric is the sum of EachMetric. A replica that was started again counts from zero.
func (b *Bed) SumMetric(ctx context.Context, name string, labels ...string) (sum float64) {
	GinkgoHelper()
	for _, value := range b.EachMetric(ctx, name, labels...) {
		sum += value
	}
	return sum
}

// Decisions returns how many Services the replicas have decided on, with one of the given results if there are any.
func (b *Bed) Decisions(ctx context.Context, results ...string) (sum float64) {
	GinkgoHelper()
	if len(results) == 0 {
		return b.SumMetric(ctx, "admission_decisions_total")
	}
	for _, result := range results {
		sum += b.SumMetric(ctx, "admission_decisions_total", "result", result)
	}
	return sum
}

// FailedOpen returns how often the API server has gone on without an answer of the named webhook, of any if the name is empty.
func (b *Bed) FailedOpen(ctx context.Context, webhook string) float64 {
	GinkgoHelper()
	return b.apiServerMetric(ctx, "apiserver_admission_webhook_fail_open_count", webhook)
}

// Calls returns how often the API server has asked the named webhook, any if the name is empty.
func (b *Bed) Calls(ctx context.Context, webhook string) float64 {
	GinkgoHelper()
	return b.apiServerMetric(ctx, "apiserver_admission_webhook_request_total", webhook)
}

func (b *Bed) apiServerMetric(ctx context.Context, name, webhook string) float64 {
	GinkgoHelper()
	text, err := b.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	metrics, err := framework.ParseMetrics(string(text))
	Expect(err).NotTo(HaveOccurred())
	var labels []string
	if webhook != "" {
		labels = []string{"name", webhook}
	}
	value, _ := metrics.Value(name, labels...)
	return value
}

// unseen is how long an address may count as handed out whose Service never came.
const unseen = 20 * time.Second

// ExpectNothingLeaked waits until no replica has an address in flight that no Service has.
// It is for moments at which nobody creates Services.
func (b *Bed) ExpectNothingLeaked(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() []float64 { return b.EachMetric(ctx, "admission_in_flight_addresses") }).
		WithTimeout(unseen).WithPolling(100*time.Millisecond).Should(HaveEach(BeZero()), "handed out and never seen")
}
