package inspect

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/plain"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// lastEvents is how many events are shown.
const lastEvents = 5

// shown is what `addresses show` prints: what `why` says of an address, and its last events.
type shown struct {
	Answer
	// Events are the latest first.
	Events []pastEvent `json:"events"`
}

// pastEvent is what an event says, and when it was last seen.
type pastEvent struct {
	Time    time.Time `json:"time"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

func show(ctx context.Context, a *cli.Session, address netip.Addr, format string) error {
	s, own, err := openFor(ctx, a, a.Namespace())
	if err != nil {
		return err
	}
	var out shown
	var about []client.ObjectKey
	if own {
		out.Answer, err = ownAnswer(ctx, s, a.Namespace(), cli.Subject{Kind: cli.KindAddress, Name: address.String()}, newNodePortRange().Range)
	} else {
		out.Answer, err = whyAddress(ctx, s, address)
		about = append(about, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: address.String()}) // events of objects without a namespace are there
	}
	if err != nil {
		return err
	}
	for _, one := range out.Addresses {
		about = append(about, servicesOf(one)...)
	}
	out.Subject = address.String()
	if out.Events, err = events(ctx, s, address, about); err != nil {
		return err
	}
	return out.print(a.Out, format, time.Now())
}

func (o shown) print(to io.Writer, format string, now time.Time) error {
	if !cli.AsTable(format) {
		return cli.Encode(to, o, format)
	}
	w := bufio.NewWriter(to)
	o.Describe(w, now)
	describeEvents(w, o.Events, now)
	return w.Flush()
}

func describeEvents(w io.Writer, all []pastEvent, now time.Time) {
	for _, e := range all {
		cli.Write(w, "  %s ago: %s: %s\n", duration.HumanDuration(now.Sub(e.Time)), plain.Text(e.Reason), plain.Text(e.Message))
	}
}

// events returns the last events about an address: those of the objects that name it.
func events(ctx context.Context, s *cli.Cluster, address netip.Addr, about []client.ObjectKey) ([]pastEvent, error) {
	text := address.String()
	all := []pastEvent{} // programs find a list
	for _, o := range about {
		list := &corev1.EventList{}
		if err := s.List(ctx, list, client.InNamespace(o.Namespace), client.MatchingFields{"involvedObject.name": o.Name}); err != nil {
			return nil, fmt.Errorf("listing events of %s: %w", o.Name, cli.Permission(err))
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Name == text || strings.Contains(e.Message, text) {
				all = append(all, pastEvent{seen(e).UTC(), e.Reason, e.Message})
			}
		}
	}
	slices.SortFunc(all, func(a, b pastEvent) int { return b.Time.Compare(a.Time) })
	return all[:min(len(all), lastEvents)], nil
}

// seen is when an event was last seen. Those of events.k8s.io have a time of their own.
func seen(e corev1.Event) time.Time {
	last := e.LastTimestamp.Time
	if e.EventTime.After(last) {
		last = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	return last
}
