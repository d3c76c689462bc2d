package bundle

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/inspect"
)

// rangesAndPolicies adds both with their conditions, whole but for their metadata.
func (b *bundle) rangesAndPolicies(context.Context) error {
	if !b.s.Policies {
		b.say("policies: the API server does not serve ServiceCIDRPolicies; the operator is not installed, or its CustomResourceDefinition is not")
	}
	var all []any
	for i := range b.cidrs {
		all = append(all, &b.cidrs[i])
	}
	if err := b.addObjects("servicecidrs", all...); err != nil {
		return err
	}
	all = nil
	for i := range b.policies {
		all = append(all, &b.policies[i])
	}
	return b.addObjects("servicecidrpolicies", all...)
}

// addObjects adds a file of objects.
func (b *bundle) addObjects(name string, all ...any) error {
	list := []any{}
	for _, o := range all {
		b.learnObject(o.(client.Object))
		one, err := object(o, b.chosen)
		if err != nil {
			return err
		}
		list = append(list, one)
	}
	return b.archive.json("objects/"+name+".json", list)
}

func (b *bundle) lease(ctx context.Context) error {
	lease := &coordinationv1.Lease{}
	if err := b.s.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: check.InstallationName}, lease); err != nil {
		return cli.Permission(err)
	}
	if holder := lease.Spec.HolderIdentity; holder != nil {
		host, _, _ := strings.Cut(*holder, "_")
		if !slices.ContainsFunc(b.managers, func(p pod) bool { return p.Name == host }) { // it runs outside of the cluster, or ran
			b.names.addHost(ofHost, host)
		}
	}
	return b.addObjects("lease", lease)
}

// admission adds what the API server asks, and what it enforces by itself.
func (b *bundle) admission(ctx context.Context) error {
	a, err := check.LookAtAdmission(ctx, b.s, b.namespace, b.manager)
	if err != nil {
		return err
	}
	for _, unknown := range a.Unknown {
		b.say("what the API server asks or enforces: %s", unknown.Why)
	}
	b.learnConfigurations(a)
	return errors.Join(
		b.addSeen("mutatingwebhookconfiguration", a.Mutating.Object, a.Bundles()), b.addSeen("validatingwebhookconfiguration", a.Validating.Object, a.Bundles()),
		b.addSeen("validatingadmissionpolicy", a.Exclusive.Object, nil), b.addSeen("validatingadmissionpolicybinding", a.Keeper.Object, nil),
	)
}

// addSeen adds a file of one object, unless it is nil.
func (b *bundle) addSeen(name string, o any, bundles []check.Bundle) error {
	decoded, err := object(o, nil)
	if err != nil || decoded == nil {
		return err
	}
	withoutBundles(decoded, bundles)
	return b.archive.json("objects/"+name+".json", decoded)
}

// said adds what a command says, as text and as JSON.
func (b *bundle) said(name string, write func(io.Writer, string) error) error {
	var text, json bytes.Buffer
	if err := errors.Join(write(&text, ""), write(&json, "json")); err != nil {
		return err
	}
	return errors.Join(b.archive.text(name+".txt", text.String()), b.archive.decoded(name+".json", json.Bytes()))
}

func (b *bundle) ranges(ctx context.Context) error {
	l, err := inspect.Ranges(ctx, b.s)
	if err != nil {
		return err
	}
	return b.said("ranges", func(w io.Writer, format string) error {
		if format == "" {
			format = "wide"
		}
		return (&cli.Output{Format: format}).Print(w, l)
	})
}

// event is what is kept of an Event.
type event struct {
	Time      string `json:"time"`
	Count     int32  `json:"count,omitempty"`
	Type      string `json:"type"`
	Reason    string `json:"reason"`
	Component string `json:"component"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Message   string `json:"message"`
}

// events adds those about our kinds, in our name, and in the operator's namespace.
func (b *bundle) events(ctx context.Context) error {
	kept := 0
	err := b.addPages(ctx, &corev1.EventList{}, "events", "events", func(o runtime.Object) (any, error) {
		e := o.(*corev1.Event)
		if !b.isAbout(e) {
			return nil, nil
		}
		if kept++; kept > mostEvents {
			return nil, nil
		}
		b.learnRegarding(e.InvolvedObject)
		return eventOf(e), nil
	})
	if kept > mostEvents {
		b.say("events beyond the first %d of %d", mostEvents, kept)
	}
	return err
}

// learnRegarding gives pseudonyms to an object of an event, which may not exist any more.
func (b *bundle) learnRegarding(about corev1.ObjectReference) {
	switch about.Kind {
	case "Service":
		b.learnService(about.Namespace, about.Name, true)
	case "Node":
		b.names.add(ofNode, about.Name)
	case "ServiceCIDR":
		b.names.add(ofRange, about.Name)
	case "ServiceCIDRPolicy":
		b.names.add(ofPolicy, about.Name)
	}
}

// eventOf is what is kept of an Event, of both of its forms.
func eventOf(e *corev1.Event) event {
	last, count, about := e.LastTimestamp.Time, e.Count, e.InvolvedObject
	switch {
	case e.Series != nil:
		last, count = e.Series.LastObservedTime.Time, e.Series.Count
	case last.IsZero():
		last = e.EventTime.Time
	}
	return event{
		Time: last.UTC().Format(time.RFC3339), Count: count, Type: shortened(e.Type), Reason: shortened(e.Reason), Component: shortened(component(e)),
		Kind: shortened(about.Kind), Namespace: shortened(about.Namespace), Name: shortened(about.Name), Message: shortened(e.Message),
	}
}

// component is who wrote an event.
func component(e *corev1.Event) string {
	if e.ReportingController != "" {
		return e.ReportingController
	}
	return e.Source.Component
}

// writerOfRepairs is the API server, where it writes events about addresses.
const writerOfRepairs = "ipallocator-repair-controller"

func (b *bundle) isAbout(e *corev1.Event) bool {
	switch kind := e.InvolvedObject.Kind; {
	case kind == "ServiceCIDR" || kind == "IPAddress" || kind == "ServiceCIDRPolicy" && strings.HasPrefix(e.InvolvedObject.APIVersion, v1alpha1.GroupVersion.Group):
		return true
	case e.InvolvedObject.Namespace == b.namespace:
		return true
	}
	return strings.HasPrefix(component(e), check.InstallationName) || component(e) == writerOfRepairs
}
