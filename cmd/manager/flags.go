package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	config "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers"
	"github.com/clusterip-operator/clusterip-operator/internal/nodeports"
)

// usage is what --help says before the flags.
const usage = `manager keeps the ServiceCIDRs and IPAddresses of a Kubernetes cluster: their life cycle, audit and repair.

  manager [flags]            run the control loops until a signal ends them
  manager cleanup [flags]    take away what the loops left in the cluster (try --dry-run first)
  manager version            print the version

It needs Kubernetes 1.33 or later, or 1.31/1.32 with --runtime-config=networking.k8s.io/v1beta1=true on the API
server and --service-cluster-ip-range here. A flag outweighs the same field of the configuration file.

  manager --kubeconfig ~/.kube/config --leader-elect=false --log-format text
  manager --config /etc/clusterip-operator/config.yaml

Flags:
`

// cleanupUsage is what cleanup --help says before the flags that it uses.
const cleanupUsage = `manager cleanup takes away, once, what the control loops left in a cluster, and ends. Whatever Services need stays.

  manager cleanup --dry-run    say what would be done
  manager cleanup              do it; can be repeated

Stop all managers first: it refuses to begin while one holds the Lease, unless --force says that none runs.
It ends with 0 when all is taken away, with 1 when it is not, and with 2 for a wrong command line.
The flags and the configuration file of the manager are understood, too; these matter here:

Flags:
`

// cleanupFlags are those that cleanup uses.
var cleanupFlags = []string{"config", "kubeconfig", "namespace", "leader-election-namespace", "kube-api-qps", "kube-api-burst", "log-format", "log-level", "dry-run", "force"}

// command is a parsed command line.
type command struct {
	config     config.ManagerConfiguration
	kubeconfig string
	// cleanup only
	dryRun, force bool
}

// parse reads flags over the configuration file over the defaults: once to find the file, and again
// with the file's values as the defaults of the flags.
func parse(name string, args []string) (command, error) {
	var file string
	c := command{config: config.Default()}
	if err := c.parseFlags(name, args, &file); err != nil {
		return c, err
	}
	if file != "" {
		loaded, err := config.Load(file)
		if err != nil {
			return c, err
		}
		c.config = loaded
		if err := c.parseFlags(name, args, &file); err != nil {
			return c, err
		}
	}
	return c, c.config.Validate()
}

// parseFlags refuses words that are no flags: `--leader-elect false` would mean true, and
// `--kubeconfig F cleanup` would start what was to be cleaned up.
func (c *command) parseFlags(name string, args []string, file *string) error {
	f := c.flags(name, file)
	err := f.Parse(args)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("%q is no flag; write --flag=value, and the command before its flags", f.Arg(0))
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		return fmt.Errorf("%w; try `%s --help`", err, strings.TrimSuffix("manager "+name, " run"))
	}
	return err
}

// flags binds a flag set to c; what c holds is the default of each.
func (c *command) flags(name string, file *string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(file, "config", *file, "configuration file, "+config.APIVersion+" "+config.Kind)
	f.StringVar(&c.kubeconfig, "kubeconfig", c.kubeconfig, "kubeconfig file; default: $KUBECONFIG, the pod's service account, ~/.kube/config")
	o := &c.config
	f.StringSliceVar(&o.ServiceClusterIPRange, "service-cluster-ip-range", o.ServiceClusterIPRange, "the value of kube-apiserver's flag; needed on Kubernetes 1.31 and 1.32")
	f.StringVar(&o.ServiceNodePortRange, "service-node-port-range", o.ServiceNodePortRange, "the value of kube-apiserver's flag, for metrics and alerts")
	f.Func("reserved-networks", "networks that no Service range may overlap unreported, `NAME=CIDR`[,NAME=CIDR]", func(text string) (err error) {
		o.ReservedNetworks, err = networks(text) // replaces what the file said
		return err
	})
	f.BoolVar(&o.BandLabels.Enabled, "band-labels", o.BandLabels.Enabled, "label IPAddresses with their band, static or dynamic")
	f.Float32Var(&o.BandLabels.QPS, "band-label-qps", o.BandLabels.QPS, "band labels written in a second at most")
	f.BoolVar(&o.History.Enabled, "history", o.History.Enabled, "keep who had which address, in ConfigMaps of --namespace; it takes the role of config/components/history")
	f.IntVar(&o.History.Owners, "history-owners", o.History.Owners, "former owners of an address that are kept, from 1 to 20")
	f.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the operator's Lease and Secret; default: the pod's")
	f.BoolVar(&o.LeaderElection.Enabled, "leader-elect", o.LeaderElection.Enabled, "work only while holding the Lease, so that replicas can stand by")
	f.StringVar(&o.LeaderElection.Namespace, "leader-election-namespace", o.LeaderElection.Namespace, "namespace of the Lease; default: --namespace")
	f.StringVar(&o.Webhook.BindAddress, "webhook-bind-address", o.Webhook.BindAddress, `address of the admission webhooks, "0" for none; they need the CRD of config/crd`)
	f.StringSliceVar(&o.Webhook.DNSNames, "webhook-dns-names", o.Webhook.DNSNames, "further names in the certificate of the webhooks")
	f.StringVar(&o.Webhook.CertDir, "webhook-cert-dir", o.Webhook.CertDir, "folder with tls.crt and tls.key that another program renews; default: a certificate of our own")
	f.StringVar(&o.Webhook.Service, "webhook-service", o.Webhook.Service, "the Service by which the API server calls the webhooks")
	f.StringVar(&o.Webhook.Configuration, "webhook-configuration", o.Webhook.Configuration, "name of the Mutating- and of the ValidatingWebhookConfiguration")
	f.StringVar(&o.Webhook.NetworkOverlap, "webhook-network-overlap", o.Webhook.NetworkOverlap, "a ServiceCIDR that overlaps other networks: Warn, Deny or Ignore")
	f.StringVar(&o.Metrics.BindAddress, "metrics-bind-address", o.Metrics.BindAddress, `address of /metrics, "0" for none`)
	f.BoolVar(&o.Metrics.Secure, "metrics-secure", o.Metrics.Secure, "serve metrics by https to those whom the API server lets read them")
	f.StringVar(&o.Health.BindAddress, "health-probe-bind-address", o.Health.BindAddress, `address of /healthz and /readyz, "0" for none`)
	f.Float32Var(&o.Client.QPS, "kube-api-qps", o.Client.QPS, "requests to the API server in a second, on average")
	f.IntVar(&o.Client.Burst, "kube-api-burst", o.Client.Burst, "requests to the API server beyond that for a moment")
	f.StringVar(&o.Log.Format, "log-format", o.Log.Format, "json or text")
	f.IntVar(&o.Log.Level, "log-level", o.Log.Level, "verbosity: 0 for admins, 4 for developers")
	head := usage
	if name == "cleanup" {
		f.BoolVar(&c.dryRun, "dry-run", false, "only say what would be done")
		f.BoolVar(&c.force, "force", false, "go on although a manager seems to run")
		f.VisitAll(func(one *pflag.Flag) { one.Hidden = !slices.Contains(cleanupFlags, one.Name) })
		head = cleanupUsage
	}
	f.Usage = func() { fmt.Print(head + f.FlagUsages()) } // that was asked for
	return f
}

// historyOwners is 0 for no history.
func historyOwners(h config.History) int {
	if !h.Enabled {
		return 0
	}
	return h.Owners
}

// networks reads NAME=CIDR[,NAME=CIDR].
func networks(text string) (out []config.ReservedNetwork, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name, cidr, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=CIDR", part)
		}
		out = append(out, config.ReservedNetwork{Name: name, CIDR: cidr})
	}
	return out, nil
}

// options turns a validated configuration into what the loops take.
func options(c config.ManagerConfiguration) controllers.Options {
	o := controllers.Options{
		Namespace:  c.Namespace,
		BandLabels: c.BandLabels.Enabled, BandLabelQPS: c.BandLabels.QPS,
		HistoryOwners:     historyOwners(c.History),
		NearlyFullPercent: c.NearlyFull.FreePercent, NearlyFullWithin: c.NearlyFull.Within.Duration,
	}
	if w := c.Webhook; w.BindAddress != "0" {
		o.Webhook = controllers.Webhook{
			BindAddress: w.BindAddress, DNSNames: w.DNSNames, CertDir: w.CertDir,
			Service: w.Service, Configuration: w.Configuration, NetworkOverlap: w.NetworkOverlap,
		}
	}
	o.ServiceNodePortRange, _ = nodeports.ParseRange(c.ServiceNodePortRange) // validated
	for _, text := range c.ServiceClusterIPRange {
		o.ServiceClusterIPRange = append(o.ServiceClusterIPRange, netip.MustParsePrefix(text))
	}
	for _, n := range c.ReservedNetworks {
		o.ReservedNetworks = append(o.ReservedNetworks, controllers.ReservedNetwork{Name: n.Name, Prefix: netip.MustParsePrefix(n.CIDR).Masked()})
	}
	return o
}
