package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// Session is one command line: where it writes, and the flags that name a cluster.
type Session struct {
	Streams
	kube       *kubeFlags
	everywhere bool // the flag --all-namespaces
}

// NewSession returns the session of one command line, which writes to out.
func NewSession(out Streams) *Session { return &Session{Streams: out, kube: newKubeFlags()} }

// AddFlags adds those of kubectl that name a cluster.
func (a *Session) AddFlags(f *pflag.FlagSet) { a.kube.addFlags(f) }

// AddAllNamespaces adds the flag of a command that lists objects of namespaces, such as "Services".
func (a *Session) AddAllNamespaces(cmd *cobra.Command, objects string) {
	cmd.Flags().BoolVarP(&a.everywhere, "all-namespaces", "A", false, objects+" of all namespaces, as without --namespace")
}

// Namespace is that of the flag --namespace, empty without it and with --all-namespaces.
func (a *Session) Namespace() string {
	if a.everywhere {
		return ""
	}
	return a.kube.overrides.Context.Namespace
}

// Validate returns an error if a flag of the session can name nothing.
func (a *Session) Validate() error {
	if name := a.kube.overrides.Context.Namespace; name != "" {
		if err := ValidNamespace(name); err != nil {
			return fmt.Errorf("--namespace: %w", err)
		}
	}
	return nil
}

// Config says how to reach the API server that the flags name, without a limit of requests: --qps
// limits what is written. The clock reads the time off all answers.
func (a *Session) Config(now *ServerClock) (*rest.Config, error) {
	config, err := a.kube.rest()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	config.Wrap(now.observe)
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " kubectl-clusterip"
	return config, nil
}

// Open connects to the cluster that the flags name.
func (a *Session) Open() (*Cluster, error) {
	now := &ServerClock{}
	config, err := a.Config(now)
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NewWarningWriter(a.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	gv, err := kube.Discover(d)
	if err != nil {
		return nil, fmt.Errorf("asking the API server at %s what it serves: %w", config.Host, err)
	}
	s := &Cluster{Config: config, Discovery: d, Clock: now, progress: a.ErrOut}
	if s.Namespace, err = a.kube.namespace(); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if s.Policies, err = kube.DiscoverPolicies(d); err != nil {
		return nil, err
	}
	scheme, err := kube.NewScheme(gv)
	if err = errors.Join(err, appsv1.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	s.WithWatch, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	return s, err
}

// kubeFlags are kubectl's own flags for reaching a cluster.
type kubeFlags struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

func newKubeFlags() *kubeFlags {
	return &kubeFlags{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
}

func (k *kubeFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&k.rules.ExplicitPath, "kubeconfig", "", "path to the kubeconfig file")
	clientcmd.BindOverrideFlags(&k.overrides, f, clientcmd.RecommendedConfigOverrideFlags(""))
}

// rest says how to connect: by flags, else $KUBECONFIG, ~/.kube/config or a pod's ServiceAccount.
func (k *kubeFlags) rest() (*rest.Config, error) { return k.config().ClientConfig() }

// namespace is that of the flags, or of the context.
func (k *kubeFlags) namespace() (string, error) {
	name, _, err := k.config().Namespace()
	return name, err
}

func (k *kubeFlags) config() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &k.overrides)
}

// NoArguments refuses words that are no flags.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%.300q is neither a command nor a flag; try `%s --help`", args[0], cmd.CommandPath())
	}
	return nil
}

// OneArgument wants one word, or up to so many that make one, and calls it what.
func OneArgument(what string, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || len(args) > most {
			return fmt.Errorf("give one %s, not %d words; try `%s --help`", what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// View connects to the cluster that the flags name, and reads it.
func (a *Session) View(ctx context.Context) (*view.View, error) {
	s, err := a.Open()
	if err != nil {
		return nil, err
	}
	return s.View(ctx)
}
