package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// Events are what was reported, in the order in which the API server lists them.
type Events []eventsv1.Event

// Events returns all events of the cluster.
func (c *Cluster) Events(ctx context.Context) Events {
	GinkgoHelper()
	list := suite.Must(c.Client().EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{}))
	return list.Items
}

// Ours returns those that the operator sent.
func (e Events) Ours() Events {
	return e.filter(func(event eventsv1.Event) bool { return strings.HasPrefix(event.ReportingController, operatorReporter) })
}

// OnService returns those about the Service of this name.
func (e Events) OnService(name string) Events { return e.on("Service", name) }

// OnServiceCIDR returns those about the ServiceCIDR of this name.
func (e Events) OnServiceCIDR(name string) Events { return e.on("ServiceCIDR", name) }

// OnIPAddress returns those about an IPAddress.
func (e Events) OnIPAddress(address string) Events { return e.on("IPAddress", address) }

func (e Events) on(kind, name string) Events {
	return e.filter(func(event eventsv1.Event) bool { return event.Regarding.Kind == kind && event.Regarding.Name == name })
}

// For returns those with this reason.
func (e Events) For(reason string) Events {
	return e.filter(func(event eventsv1.Event) bool { return event.Reason == reason })
}

// Warnings returns those that are warnings.
func (e Events) Warnings() Events {
	return e.filter(func(event eventsv1.Event) bool { return event.Type == corev1.EventTypeWarning })
}

// Notes returns the texts.
func (e Events) Notes() []string {
	notes := make([]string, 0, len(e))
	for _, event := range e {
		notes = append(notes, event.Note)
	}
	return notes
}

// Count returns how often they happened: an event that repeats is one object with a number.
func (e Events) Count() (n int) {
	for _, event := range e {
		if event.Series != nil {
			n += int(event.Series.Count)
		} else {
			n++
		}
	}
	return n
}

// GomegaString writes an event in a line, for the report of a failure.
func (e Events) GomegaString() string {
	var lines []string
	for _, event := range e {
		lines = append(lines, fmt.Sprintf("%s %s/%s: %s (from %s)",
			event.Reason, event.Regarding.Kind, event.Regarding.Name, event.Note, event.ReportingController))
	}
	return strings.Join(lines, "\n")
}

func (e Events) filter(keep func(eventsv1.Event) bool) Events {
	kept := Events{}
	for _, event := range e {
		if keep(event) {
			kept = append(kept, event)
		}
	}
	return kept
}

// NoSeries is what Metric returns when there is no such series. Our metrics are never negative.
const NoSeries = -1.0

// What a decision about a Service may be, the label result of admission_decisions_total.
const (
	Filled = "filled"
	Failed = "failed"
)

// serviceWebhooks are the names of those that are asked about creations and updates of Services.
var serviceWebhooks = []string{"service.clusterip-operator.io", "default.service.clusterip-operator.io", "update.service.clusterip-operator.io"}

// Metric returns the sum of the operator's series clusterip_operator_<name> that carry the labels
// (name, value, name, value...), NoSeries if there is none.
func (c *Cluster) Metric(ctx context.Context, name string, labels ...string) float64 {
	GinkgoHelper()
	if value, found := scrape(ctx, c.Operator).Value("clusterip_operator_"+name, labels...); found {
		return value
	}
	return NoSeries
}

// EachMetric is Metric of each running replica, 0 for no series. A restarted replica counts from 0.
func (c *Cluster) EachMetric(ctx context.Context, name string, labels ...string) (values []float64) {
	GinkgoHelper()
	for _, replica := range c.Replicas() {
		values = append(values, MetricOf(ctx, replica, "clusterip_operator_"+name, labels...))
	}
	return values
}

// MetricOf returns the sum of a manager's series of any name that carry the labels, 0 for none.
func MetricOf(ctx context.Context, manager *framework.Manager, name string, labels ...string) float64 {
	GinkgoHelper()
	value, _ := scrape(ctx, manager).Value(name, labels...)
	return value
}

func scrape(ctx context.Context, manager *framework.Manager) framework.Metrics {
	GinkgoHelper()
	return suite.Must(manager.Metrics(ctx))
}

// Decisions returns how many Services the replicas decided on; if result is not empty, with result.
func (c *Cluster) Decisions(ctx context.Context, result string) (sum float64) {
	GinkgoHelper()
	var labels []string
	if result != "" {
		labels = []string{"result", result}
	}
	for _, value := range c.EachMetric(ctx, "admission_decisions_total", labels...) {
		sum += value
	}
	return sum
}

// ScrapeAPIServer returns the metrics of an API server.
func ScrapeAPIServer(ctx context.Context, api *framework.Access) framework.Metrics {
	GinkgoHelper()
	text := suite.Must(api.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx))
	return suite.Must(framework.ParseMetrics(string(text)))
}

// FailedOpen returns how often an API server has gone on without our answer about a Service.
func FailedOpen(ctx context.Context, api *framework.Access) float64 {
	GinkgoHelper()
	metrics, sum := ScrapeAPIServer(ctx, api), 0.0
	for _, name := range serviceWebhooks {
		value, _ := metrics.Value("apiserver_admission_webhook_fail_open_count", "name", name)
		sum += value
	}
	return sum
}

// inFlightTimeout is a bit longer than an address counts as handed out whose Service never came.
const inFlightTimeout = 20 * time.Second

// ExpectNothingLeaked waits until no replica has an address in flight that no Service has. Call it
// while no client creates Services.
func (c *Cluster) ExpectNothingLeaked(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() []float64 { return c.EachMetric(ctx, "admission_in_flight_addresses") }).
		WithTimeout(inFlightTimeout).WithPolling(100*time.Millisecond).Should(HaveEach(BeZero()), "handed out and never seen")
}
