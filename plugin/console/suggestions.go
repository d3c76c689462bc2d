package console

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// mostSuggestions is how many the page shows.
const mostSuggestions = 12

// suggestions completes the subject of a question from what the view has read.
func (d *data) suggestions(ctx context.Context, query url.Values) (any, error) {
	in, err := d.names(ctx)
	return suggest(strings.TrimSpace(query.Get("text")), in, mostSuggestions), err
}

// names are what can be asked about: Services as namespace/name.
type names struct {
	namespaces, services, ranges, policies []string
	addresses                              []netip.Addr
}

func (d *data) names(ctx context.Context) (out names, err error) {
	namespaces, cidrs := &corev1.NamespaceList{}, &networkingv1.ServiceCIDRList{}
	if err := d.view.List(ctx, namespaces); err != nil {
		return out, fmt.Errorf("reading namespaces: %w", err)
	}
	if err := d.view.List(ctx, cidrs); err != nil {
		return out, fmt.Errorf("reading ServiceCIDRs: %w", err)
	}
	for _, name := range d.view.Services() {
		out.services = append(out.services, name.String())
	}
	for i := range namespaces.Items {
		out.namespaces = append(out.namespaces, namespaces.Items[i].Name)
	}
	for i := range cidrs.Items {
		out.ranges = append(out.ranges, cidrs.Items[i].Name)
	}
	out.policies, out.addresses = d.view.Policies(), d.view.Known()
	return out, nil
}

// suggest returns subjects that a text may be the beginning of: first those that begin with it,
// then those in which a name begins with it, then those that have it anywhere.
func suggest(text string, in names, most int) []string {
	begins, named, has := []string{}, []string{}, []string{}
	offer := func(subject string) {
		switch {
		case strings.HasPrefix(subject, text):
			begins = append(begins, subject)
		case strings.Contains(subject, "/"+text):
			named = append(named, subject)
		case strings.Contains(subject, text):
			has = append(has, subject)
		}
	}
	offerNames(text, in, offer)
	for _, all := range [][]string{begins, named, has} {
		slices.Sort(all)
	}
	all := append(append(begins, named...), has...) // never nil: the page expects a list
	return all[:min(len(all), most)]
}

// offerNames offers what fits the part of the subject that is being typed: the kind, a namespace,
// or a name. All Services are offered as soon as a letter of one is there.
func offerNames(text string, in names, offer func(subject string)) {
	kind, rest, typed := strings.Cut(text, "/")
	if text == "" {
		for _, each := range []string{"namespace/", "policy/", "range/", "service/"} {
			offer(each)
		}
		return
	}
	for _, name := range in.namespaces {
		offer("namespace/" + name)
		if typed && kind == "service" && !strings.Contains(rest, "/") {
			offer("service/" + name + "/")
		}
	}
	for _, name := range in.ranges {
		offer("range/" + name)
	}
	for _, name := range in.policies {
		offer("policy/" + name)
	}
	if kind != "service" || strings.Contains(rest, "/") {
		for _, name := range in.services {
			offer("service/" + name)
		}
	}
	if strings.ContainsAny(text, ".:") {
		for _, a := range in.addresses {
			if subject := a.String(); strings.HasPrefix(subject, text) {
				offer(subject)
			}
		}
	}
}
