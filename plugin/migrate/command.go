package migrate

import (
	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// command is what its subcommands share.
type command struct {
	cli.Streams
	from Connection
}

// New returns the command `migrate` with its subcommands.
func New(a *cli.Session) *cobra.Command {
	m := &command{Streams: a.Streams, from: NewConnection(a)}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Take a cluster from the legacy allocation bitmap to IPAddresses, and back",
		Long: `Kubernetes 1.32 and older keep the ClusterIPs that are taken in a bitmap in etcd, 1.33 and later in one IPAddress object for each.
An API server that changes from one to the other writes those objects while it starts, one after the other, with a warning event for each.
Written beforehand, it finds nothing to do:

  check  ──>  plan  ──>  run  ──>  verify  ──>  upgrade the API servers  ──>  finalize
                    (seed, where the API is not served)           <──  rollback

Exit status of every command: 0 clean or done, 1 something is left to be done, 2 it could not be told or nothing was done.

Bitmaps are in etcd only; to look at them, give the address and the client certificate that kube-apiserver uses:

  kubectl clusterip migrate check --etcd-servers=https://127.0.0.1:2379 --etcd-cafile=/etc/kubernetes/pki/etcd/ca.crt \
    --etcd-certfile=/etc/kubernetes/pki/apiserver-etcd-client.crt --etcd-keyfile=/etc/kubernetes/pki/apiserver-etcd-client.key`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	m.from.addFlags(cmd.PersistentFlags())
	cmd.AddCommand(newCheck(m), newPlan(m), newRun(m), newSeed(m), newUnseed(m), newVerify(m), newRollback(m), newFinalize(m))
	return cmd
}
