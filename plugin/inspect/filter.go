package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// filter says which addresses are listed; an empty field lets all pass.
type filter struct {
	serviceCIDR, band, namespace, state, parent, policy string

	of view.Parent // what parent means; an empty field lets all pass
}

// validate returns an error if no address can pass, and reads what parent means.
func (f *filter) validate() (err error) {
	for _, row := range []struct {
		flag, value string
		known       []string
	}{
		{"--band", f.band, []string{"", "static", "dynamic"}},
		{"--state", f.state, []string{"", "allocated", "reserved", "cooling"}},
	} {
		if !slices.Contains(row.known, row.value) {
			return fmt.Errorf("%s %q is none of %s", row.flag, row.value, strings.Join(row.known[1:], ", "))
		}
	}
	if f.serviceCIDR, err = rangeName(f.serviceCIDR); err != nil {
		return fmt.Errorf("--range: %w", err)
	}
	if f.of, err = parseParent(f.parent, f.namespace); err != nil {
		return fmt.Errorf("--parent: %w", err)
	}
	if f.of.Kind == cli.KindPolicy && f.namespace != "" {
		return errors.New("--parent: a policy is in no namespace; leave out --namespace")
	}
	return nil
}

// parseParent reads NAMESPACE/NAME, NAME, TYPE/NAME or TYPE/NAMESPACE/NAME. A mere name is that of
// a Service where a namespace is given, and otherwise that of an object without one: a policy.
func parseParent(text, namespace string) (p view.Parent, err error) {
	if text == "" {
		return p, nil
	}
	s, known, err := cli.ParseSubject(text, namespace)
	if known {
		if err == nil && s.Kind != cli.KindService && s.Kind != cli.KindPolicy {
			err = fmt.Errorf("%.300q has no addresses; name a Service or a policy", text)
		}
		return view.Parent{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}, err
	}
	parts := strings.Split(text, "/")
	switch {
	case slices.Contains(parts, "") || len(parts) > 3:
		return p, fmt.Errorf("%q is none of NAMESPACE/NAME, NAME, TYPE/NAME, TYPE/NAMESPACE/NAME", text)
	case len(parts) == 3: // an object of another manager
		return view.Parent{Kind: parts[0], Namespace: parts[1], Name: parts[2]}, nil
	case len(parts) == 2:
		return view.Parent{Namespace: parts[0], Name: parts[1]}, nil
	case namespace == "":
		return view.Parent{Kind: cli.KindPolicy, Name: text}, nil
	}
	return view.Parent{Namespace: namespace, Name: text}, nil
}

// known returns an error if the filter names a range or a policy that is not there: an empty list
// would say that they have no addresses.
func (f *filter) known(ctx context.Context, s *cli.Cluster) error {
	cidrs, policies, err := s.RangesAndPolicies(ctx)
	if err != nil {
		return err
	}
	if names := namesOf(cidrs.Items); f.serviceCIDR != "" && !slices.Contains(names, f.serviceCIDR) {
		return absent("ServiceCIDR", f.serviceCIDR, names, "kubectl clusterip ranges")
	}
	if names := namesOf(policies.Items); f.policy != "" && !slices.Contains(names, f.policy) {
		return absent("ServiceCIDRPolicy", f.policy, names, "kubectl get servicecidrpolicies")
	}
	if names := namesOf(policies.Items); f.of.Kind == cli.KindPolicy && !slices.Contains(names, f.of.Name) {
		return absent("ServiceCIDRPolicy", f.of.Name, names, "kubectl get servicecidrpolicies")
	}
	return nil
}

func (f *filter) matches(a view.Address) bool {
	is := func(want, has string) bool { return want == "" || want == has }
	return is(f.band, a.Band) && is(f.state, a.State) && is(f.policy, a.Policy) &&
		(f.serviceCIDR == "" || slices.Contains(a.ServiceCIDRs, f.serviceCIDR)) &&
		(f.namespace == "" && f.parent == "" || slices.ContainsFunc(parentsOf(a), func(p view.Parent) bool {
			return is(f.namespace, p.Namespace) && is(f.of.Kind, p.Kind) && is(f.of.Namespace, p.Namespace) && is(f.of.Name, p.Name)
		}))
}

// parentsOf are the Services that have an address, and what its IPAddress names.
func parentsOf(a view.Address) (all []view.Parent) {
	for _, name := range a.Services {
		all = append(all, view.ServiceParent(name))
	}
	if a.IPAddress != nil {
		all = append(all, view.ParentOf(a.IPAddress))
	}
	return all
}

// parentOf is the Service that has an address, or else what its IPAddress names.
func parentOf(a view.Address) string {
	return cmp.Or(strings.Join(a.Services, ","), a.Parent, "<none>")
}

// rangeName reads NAME, or TYPE/NAME of a ServiceCIDR.
func rangeName(text string) (string, error) {
	word, _, slash := strings.Cut(text, "/")
	if !slash {
		return text, nil
	}
	if cli.KindOf(word) != cli.KindRange {
		return "", fmt.Errorf("%.300q names no ServiceCIDR; write its NAME", text)
	}
	s, _, err := cli.ParseSubject(text, "")
	return s.Name, err
}

// rangeArguments reads the names of ServiceCIDRs.
func rangeArguments(args []string) (names []string, err error) {
	for _, arg := range args {
		name, err := rangeName(arg)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

func namesOf[T any, O interface {
	*T
	GetName() string
}](all []T) (names []string) {
	for i := range all {
		names = append(names, O(&all[i]).GetName())
	}
	return names
}

func rangeNames(all []Range) (names []string) {
	for _, r := range all {
		names = append(names, r.ServiceCIDR)
	}
	return names
}
