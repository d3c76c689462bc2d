package cluster

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Events are what was reported, in the order in which the API server lists them.
type Events []eventsv1.Event

// Events returns all events of the cluster.
func (c *Cluster) Events(ctx context.Context) Events {
	GinkgoHelper()
	list, err := c.Client().EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
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
