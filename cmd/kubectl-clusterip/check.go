package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

func newCheck(m *migrate) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Compare bitmaps, Services and IPAddresses; changes nothing",
		Example: `  kubectl clusterip migrate check
  kubectl clusterip migrate check --etcd-servers=http://127.0.0.1:2379 -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.check(cmd.Context(), output)
		},
	}
	addOutput(cmd, &output, "table, json or yaml")
	return cmd
}

func addOutput(cmd *cobra.Command, output *string, choices string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "output format: "+choices)
}

func (m *migrate) check(ctx context.Context, output string) error {
	if err := validOutput(output); err != nil {
		return err
	}
	plan, err := m.look(ctx, migration.Options{})
	if err != nil {
		return err
	}
	if err := m.print(plan, migration.KindReport, output); err != nil {
		return err
	}
	return status(plan)
}

// look reads the cluster, twice if something seems to be wrong.
func (m *migrate) look(ctx context.Context, o migration.Options) (migration.Plan, error) {
	l, err := m.from.open(ctx)
	if err != nil {
		return migration.Plan{}, err
	}
	defer l.close()
	return l.Confirmed(m.logging(ctx), o)
}

// status is the exit status of a look.
func status(p migration.Plan) error {
	switch {
	case slices.ContainsFunc(p.Findings, migration.Finding.Unknown):
		return exit{exitUnknown, errors.New("not everything could be told: " + kindsOf(p.Findings, migration.Finding.Unknown))}
	case !p.Clean():
		return exit{code: exitFindings}
	default:
		return nil
	}
}

// kindsOf names the kinds of some findings, each once.
func kindsOf(all []migration.Finding, which func(migration.Finding) bool) string {
	var names []string
	for _, f := range all {
		if which(f) && !slices.Contains(names, string(f.Kind)) {
			names = append(names, string(f.Kind))
		}
	}
	return strings.Join(names, ", ")
}
