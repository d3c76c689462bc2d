package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	rule "github.com/coreos/go-iptables/iptables"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// CleanupOptions say what to take away, in one family.
type CleanupOptions struct {
	Family model.Family
	// Modes are the variants to look at.
	Modes []Mode
	// Sets are taken away too; nil leaves them, because rules of another variant still use them.
	Sets Sets
	// KubeProxy takes the rules and sets of kube-proxy away instead of ours.
	KubeProxy bool
	// DryRun only says what would be taken away.
	DryRun bool
}

// Cleanup takes away our chains, the rules that lead to them, and our sets, and returns what it did
// in words. It touches nothing else, and skips a variant that is not installed or has no tables.
func Cleanup(ctx context.Context, o CleanupOptions) ([]string, error) {
	var done []string
	var problems []error
	for _, m := range o.Modes {
		did, err := cleanVariant(ctx, o, m)
		done, problems = append(done, did...), append(problems, err)
	}
	if o.Sets != nil && errors.Join(problems...) == nil {
		did, err := cleanSets(ctx, o)
		done, problems = append(done, did...), append(problems, err)
	}
	return done, errors.Join(problems...)
}

func cleanVariant(ctx context.Context, o CleanupOptions, m Mode) ([]string, error) {
	r, err := newRunner(m, o.Family)
	if errors.Is(err, exec.ErrNotFound) || m == Legacy && !LegacyInUse(o.Family) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	text, err := r.Save(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	s := rules.ParseSave(text)
	if o.KubeProxy {
		s = rules.ParseKubeProxy(text)
	}
	did, err := cleanShown(ctx, o, m, r, s)
	if o.KubeProxy || err != nil {
		return did, errors.Join(err, stays(s.Unreadable))
	}
	unreadable, err := r.ask(ctx, s)
	for _, t := range unreadable {
		did = append(did, fmt.Sprintf("%s iptables-%s: what is known of the agent's in the table %s, which iptables cannot show", o.Family, m, t))
		if !o.DryRun {
			err = errors.Join(err, r.cleanSingly(t))
		}
	}
	return did, err
}

func cleanShown(ctx context.Context, o CleanupOptions, m Mode, r runner, s rules.Saved) ([]string, error) {
	t, jumps := s.Removal()
	if t.Empty() {
		return nil, nil
	}
	did := []string{fmt.Sprintf("%s iptables-%s: %d chains, %d jumps to them", o.Family, m, t.Chains(), jumps)}
	if o.DryRun {
		return did, nil
	}
	if err := r.Restore(ctx, t.Text()); err != nil {
		return nil, fmt.Errorf("removing %d chains: %w", t.Chains(), err)
	}
	return did, nil
}

// cleanSingly takes away what is ours in a table that iptables cannot show, as far as its names are
// known: the jumps, and in the table filter all chains. In nat, chains of single Services stay, to
// which nothing leads any more.
func (r runner) cleanSingly(t rules.Table) error {
	node, err := rule.New(rule.Path(strings.TrimSuffix(r.save, "-save")), rule.Timeout(lockTimeout))
	if err != nil {
		return fmt.Errorf("asking iptables for its version: %w", err)
	}
	chains, jumps := rules.Known(t)
	for _, c := range chains { // first: then each of them exists, and none leads to another
		err = errors.Join(err, node.ClearChain(string(t), c))
	}
	for from, to := range jumps {
		err = errors.Join(err, deleteAll(node, t, from, to))
	}
	for _, c := range chains {
		err = errors.Join(err, node.DeleteChain(string(t), c))
	}
	if t == "nat" {
		err = errors.Join(err, stays([]rules.Table{t}))
	}
	return err
}

func deleteAll(node *rule.IPTables, t rules.Table, from, to string) error {
	for {
		found, err := node.Exists(string(t), from, "-j", to)
		if err != nil || !found {
			return err
		}
		if err := node.Delete(string(t), from, "-j", to); err != nil {
			return err
		}
	}
}

// stays says what has to stay because it cannot be read; nil for nothing.
func stays(unreadable []rules.Table) (problem error) {
	for _, t := range unreadable {
		problem = errors.Join(problem, fmt.Errorf("iptables cannot show the table %s, because it has a rule that only nft can show: chains in it and the sets that they name stay; "+
			"find that rule with `nft list table ip %[1]s` (ip6 for IPv6), delete it, and try again", t))
	}
	return problem
}

func cleanSets(ctx context.Context, o CleanupOptions) ([]string, error) {
	prefix, cleaned := rules.Prefix, cleanedWith
	if o.KubeProxy {
		prefix, cleaned = rules.KubeProxySets(o.Family), rules.IsKubeProxySet
	}
	counts, err := o.Sets.Counts(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("listing sets: %w", err)
	}
	maps.DeleteFunc(counts, func(name string, _ int) bool { return !cleaned(name, o.Family) })
	if len(counts) == 0 {
		return nil, nil
	}
	did := []string{fmt.Sprintf("%s ipset: %d sets", o.Family, len(counts))}
	if o.DryRun {
		return did, nil
	}
	if err := o.Sets.Destroy(ctx, slices.Sorted(maps.Keys(counts))...); err != nil {
		return nil, fmt.Errorf("removing sets: %w", err)
	}
	return did, nil
}

// cleanedWith reports whether a set is removed with a family. A set with the name of an unknown
// version goes with IPv6, which comes last, so that no rule uses it any more.
func cleanedWith(name string, f model.Family) bool {
	return strings.HasPrefix(name, rules.SetPrefix(model.IPv4)) == (f == model.IPv4)
}
