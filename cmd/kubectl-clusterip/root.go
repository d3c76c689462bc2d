package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/internal/version"
)

func newRoot(out streams) *cobra.Command {
	kube := newKubeFlags()
	root := &cobra.Command{
		Use:   "kubectl-clusterip",
		Short: "Service virtual IPs of a cluster",
		Long: `Looks after the virtual IPs of Services.

  kubectl clusterip ranges            how full every ServiceCIDR is, and when it will be
  kubectl clusterip addresses         the addresses in use, with who has them; show ADDRESS tells all of one
  kubectl clusterip map RANGE         the address space, drawn
  kubectl clusterip why ...           why a Service has this address or is refused, or a range does not go
  kubectl clusterip status            is the operator well
  kubectl clusterip check             what is wrong; repair --from FILE mends what a report of it says
  kubectl clusterip console           all of this in a browser
  kubectl clusterip renumber ...      move Services to another range without losing a connection
  kubectl clusterip dual-stack plan   which Services lack the second family; run --from FILE gives it to them
  kubectl clusterip migrate check     compare the legacy bitmap, Services and IPAddresses
  kubectl clusterip migrate --help    the whole way from the bitmap to IPAddresses, and back`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl clusterip"},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(out.Out)
	root.SetErr(out.ErrOut)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; try `%s --help`", err, cmd.CommandPath())
	})
	kube.addFlags(root.PersistentFlags())
	admin := &admin{streams: out, kube: kube}
	root.AddCommand(newRanges(admin), newAddresses(admin), newMap(admin), newWhy(admin), newStatus(admin), newAudit(admin), newRepair(admin), newConsole(admin), newRenumber(admin), newDualStack(admin), newMigrate(kube, out), newCompletion(out), newVersion(out))
	return root
}

func newVersion(out streams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(out.Out, version.String())
			return err
		},
	}
}

// newCompletion writes kubectl_complete-clusterip, which kubectl finds in the PATH and runs.
func newCompletion(out streams) *cobra.Command {
	return &cobra.Command{
		Use: "completion", Short: "Write the program kubectl_complete-clusterip, by which kubectl completes words", Args: noArguments,
		Example: `  kubectl clusterip completion >/usr/local/bin/kubectl_complete-clusterip && chmod +x /usr/local/bin/kubectl_complete-clusterip`,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(out.Out, "#!/bin/sh\nexec kubectl-clusterip __complete \"$@\"\n")
			return err
		},
	}
}

// migrate is what its subcommands share.
type migrate struct {
	streams
	from connection
}

func newMigrate(kube *kubeFlags, out streams) *cobra.Command {
	m := &migrate{streams: out, from: connection{kube: kube}}
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
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	m.from.addFlags(cmd.PersistentFlags())
	cmd.AddCommand(newCheck(m), newPlan(m), newRun(m), newSeed(m), newUnseed(m), newVerify(m), newRollback(m), newFinalize(m))
	return cmd
}
