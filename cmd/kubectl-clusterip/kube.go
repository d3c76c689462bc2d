package main

import (
	"io"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// streams are where a command writes.
type streams struct{ Out, ErrOut io.Writer }

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

// rest returns how to connect: as the flags say, else $KUBECONFIG, ~/.kube/config or, in a pod, its ServiceAccount.
func (k *kubeFlags) rest() (*rest.Config, error) {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &k.overrides).ClientConfig()
}
