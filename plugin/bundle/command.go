package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// New returns the command `bundle`.
func New(a *cli.Session) *cobra.Command {
	var o options
	var output string
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Gather what an issue needs into one archive, without names of tenants",
		Long: `Writes one archive for an issue: versions, ServiceCIDRs and policies with their conditions, the part of Services and IPAddresses that addresses depend on, what
check, status and ranges say, events, the Lease, webhook configurations, the ends of the operator's and of agents' logs, and what agents serve. README.txt in it says what is where.
What cannot be read is said on stderr and in errors.txt, and the rest goes on.

Names are replaced, in all files and texts: of namespaces, Services, nodes, ServiceCIDRs, policies and reservations; keys and values of labels by which policies select; the user; host names
of load balancers, webhooks, registries and the API server. namespace-1 is the same namespace in all files of a bundle, and another one in the next; the numbers are drawn, so that
no guess can be tried against them. Kept are addresses, UIDs, times, images, names without a letter, what every cluster has (default, kube-system, kube-dns), and the operator's own namespace
and pods. Other labels and annotations, selectors of Services and names of ports are never in a bundle, nor are Secrets, ConfigMaps and what kubectl apply was given. Look through it before you publish it: in a
log line, what is called like no object of the cluster any more is known as a name only behind its namespace. --redact=false leaves all names, for people who may see them.

The ClusterRole view has what it reads, but for nodes (list), whose names it replaces, and what agents serve (get and create pods/exec; "proxyagent dump" is all that it runs).

Exit status: 0 the archive is written, 2 it is not.`,
		Example: `  kubectl clusterip bundle
  kubectl clusterip bundle -o issue.tar.gz
  kubectl clusterip bundle --redact=false -o - >named.tar.gz`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := validOutput(a, output); err != nil {
				return err
			}
			return run(cmd.Context(), a, o, output)
		},
	}
	check.NamespaceFlag(cmd, &o.namespace)
	cmd.Flags().StringVarP(&output, "output", "o", "", "the archive: a file that ends in .tar.gz or .tgz, or - for stdout; clusterip-bundle-TIME.tar.gz without it")
	cmd.Flags().BoolVar(&o.redact, "redact", true, "replace names")
	cmd.Flags().Int64Var(&o.tail, "tail", 2000, "lines of each log, of which 1 MiB is kept; 0 for none")
	cmd.Flags().IntVar(&o.agents, "agents", 10, "of so many agents there are logs and what they serve, first of those that are not ready")
	return cmd
}

func (o options) validate() error {
	if o.tail < 0 {
		return errors.New("--tail must not be negative")
	}
	if o.agents < 0 {
		return errors.New("--agents must not be negative")
	}
	return nil
}

// validOutput returns an error if no archive can be written so.
func validOutput(a *cli.Session, output string) error {
	switch f, ok := a.Out.(*os.File); {
	case output == "-" && ok && term.IsTerminal(int(f.Fd())):
		return errors.New("--output -: stdout is a terminal; name a file, or lead it into a program")
	case output == "" || output == "-":
		return nil
	case !strings.HasSuffix(output, ".tar.gz") && !strings.HasSuffix(output, ".tgz"):
		return fmt.Errorf("--output %q is none of -, or a file name that ends in .tar.gz or .tgz", output)
	}
	return cli.ValidFile("--output", output)
}

func run(ctx context.Context, a *cli.Session, o options, output string) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	b := &bundle{options: o, s: s, log: a.ErrOut}
	write := func(w io.Writer) error { return b.write(ctx, w) }
	if output == "-" {
		return write(a.Out)
	}
	if output == "" {
		output = "clusterip-bundle-" + s.Clock.Now().UTC().Format("20060102-150405") + ".tar.gz"
	}
	if err := batch.Replace(output, write); err != nil {
		return err
	}
	a.Say("%s", output)
	return nil
}
