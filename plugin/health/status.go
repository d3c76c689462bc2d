package health

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// New returns the command `status`.
func New(a *cli.Session) *cobra.Command {
	var namespace, format string
	var timeout time.Duration
	var strict bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Is the operator well, in a line for each of its parts",
		Long: `Looks at the manager's replicas and who of them leads, at the webhooks, at the agents on the nodes, and at the conditions of ServiceCIDRs and policies. With -o wide there is a
line for each agent. Drift of single addresses is looked for by ` + "`check`" + `.

The operator is well if its own parts are. What it has found about ranges and policies is listed, and counts with --strict alone: a range that is full is no fault of an installation.

Two things not every user may find out, and the status says so then. Whether the API server reaches the webhooks is tried by a Service that is created for trial (dry run) in the
namespace of the kubeconfig: it is not stored, and no address is drawn for it (create services). What the agents say of themselves is read through the API server (get pods/proxy);
without that their mode is that of their configuration, and nothing is known about their last sync.

Exit status: 0 the operator is well, 1 it is not, or with --strict something was found, 2 it could not be told.`,
		Example: `  kubectl clusterip status
  kubectl clusterip status -o wide
  kubectl clusterip status --wait=2m
  kubectl clusterip status --strict`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.ValidOutput(format, "wide"); err != nil {
				return err
			}
			if timeout < 0 {
				return errors.New("--wait must not be negative")
			}
			return status(cmd.Context(), a, question{namespace, timeout, strict}, format)
		},
	}
	check.NamespaceFlag(cmd, &namespace)
	cmd.Flags().DurationVar(&timeout, "wait", 0, "wait for so long until the operator is well")
	cmd.Flags().BoolVar(&strict, "strict", false, "findings about ranges and policies count, too")
	cli.AddOutput(cmd, &format, "wide")
	return cmd
}

// question is what is asked of status.
type question struct {
	namespace string
	timeout   time.Duration
	strict    bool
}

func status(ctx context.Context, a *cli.Session, q question, format string) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	var now Installation
	look := func(ctx context.Context) (bool, error) {
		seen, err := Look(ctx, s, q.namespace)
		if err == nil { // otherwise now is what was seen last: the end of the time may have cut this look short
			now = seen
		}
		return seen.well(q.strict) && err == nil, err
	}
	well, err := look(ctx)
	if err == nil && !well && q.timeout > 0 {
		err = wait.PollUntilContextTimeout(ctx, time.Second, q.timeout, false, look)
		well = err == nil
		if wait.Interrupted(err) && ctx.Err() == nil {
			err = nil
		}
	}
	if err == nil {
		err = now.Print(a.Out, format)
	}
	if err != nil || well {
		return err
	}
	return cli.Exit{Code: cli.ExitFindings}
}

// Installation is what `status` says of the operator, and what the console shows.
type Installation struct {
	Kind string `json:"kind"`
	// Time is when it was looked at; ages are counted from it.
	Time time.Time `json:"time"`
	// Well: the operator's own parts are. Findings do not count.
	Well bool `json:"well"`
	// Parts sum up what follows for people.
	Parts    []part    `json:"parts"`
	Replicas []replica `json:"replicas"`
	Leader   *leader   `json:"leader,omitempty"`
	// Webhooks is nil where none are configured.
	Webhooks *webhooks `json:"webhooks,omitempty"`
	Agents   []agent   `json:"agents"`
	// Admission is what is wrong with webhook configurations and what enforces exclusive ranges.
	Admission []check.Item `json:"admission,omitempty"`
	// Findings are those about ranges and policies.
	Findings []check.Item `json:"findings"`
}

// well is whether the operator is, and with strict whether nothing was found besides.
func (i Installation) well(strict bool) bool { return i.Well && (!strict || len(i.Findings) == 0) }

// part is one line of `status`.
type part struct {
	Name string `json:"name"`
	Well bool   `json:"well"`
	Text string `json:"text"`
}

// replica is one pod of the manager.
type replica struct {
	Pod   string     `json:"pod"`
	Node  string     `json:"node,omitempty"`
	Image string     `json:"image"`
	Ready bool       `json:"ready"`
	Since *time.Time `json:"since,omitempty"` // it is ready, or not
	Leads bool       `json:"leads,omitempty"`
}

// leader is the pod that holds the operator's Lease.
type leader struct {
	Pod     string     `json:"pod"`
	Since   *time.Time `json:"since,omitempty"`
	Renewed *time.Time `json:"renewed,omitempty"`
	// Expired: it has not renewed the Lease in time.
	Expired bool `json:"expired,omitempty"`
}

// webhooks are those that the API server is to call.
type webhooks struct {
	// Configured counts the webhooks of both configurations.
	Configured int `json:"configured"`
	// TrustedUntil is when the CA that the API server trusts expires; nil while it trusts none.
	TrustedUntil *time.Time `json:"trustedUntil,omitempty"`
	// Untrusted names the first webhook whose authority is not entered yet.
	Untrusted string `json:"untrusted,omitempty"`
	probed
}

// agent is the proxy of one node.
type agent struct {
	Node      string `json:"node"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Image     string `json:"image"`
	Ready     bool   `json:"ready"`
	// Mode is iptables or nftables; what the configuration says, which may be auto, unless Told.
	Mode string `json:"mode,omitempty"`
	// Told: the agent has answered. LastSync is when it last brought a family's rules into the kernel.
	Told     bool       `json:"told,omitempty"`
	LastSync *time.Time `json:"lastSync,omitempty"`
	// Problem is why it is not well.
	Problem string `json:"problem,omitempty"`
	// Unknown is why it could not be asked.
	Unknown string `json:"unknown,omitempty"`
}

// Print writes the state in a format of `status`.
func (i Installation) Print(w io.Writer, format string) error {
	if !cli.AsTable(format) && format != "wide" {
		return cli.Encode(w, i, format)
	}
	l := cli.Listing{Table: metav1.Table{ColumnDefinitions: cli.Columns("PART", "WELL", "STATUS")}}
	for _, p := range i.Parts {
		l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{p.Name, p.Well, p.Text}})
	}
	if err := (&cli.Output{}).Print(w, l); err != nil || cli.AsTable(format) || len(i.Agents) == 0 {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	l = cli.Listing{Table: metav1.Table{ColumnDefinitions: cli.Columns("NODE", "MODE", "READY", "LAST-SYNC", "IMAGE", "PROBLEM")}}
	for _, a := range i.Agents {
		synced := "<unknown>"
		if a.LastSync != nil {
			synced = ago(i.Time, *a.LastSync)
		}
		l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{
			a.Node, cmp.Or(a.Mode, "<unknown>"), a.Ready, synced, a.Image, cmp.Or(a.Problem, a.Unknown, "<none>"),
		}})
	}
	return (&cli.Output{}).Print(w, l)
}
