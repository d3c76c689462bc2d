package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubectl runs kubectl 1.37 and returns its stdout. The error holds what it printed to stderr.
func Kubectl(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	return KubectlWithInput(ctx, kubeconfig, "", args...)
}

// KubectlWithInput is Kubectl with something to read on stdin, for "apply -f -".
func KubectlWithInput(ctx context.Context, kubeconfig, stdin string, args ...string) (stdout string, err error) {
	path, err := program(module137, "kubectl")
	if err != nil {
		return "", err
	}
	// kubectl caches for hours what an API server serves, under its port. Ours share ports over time.
	cache, err := os.MkdirTemp("", "clusterip-operator-kubectl-")
	if err != nil {
		return "", fmt.Errorf("running kubectl: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()

	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, path, append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+cache)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// WriteKubeconfig writes a kubeconfig for programs that shall connect as config says. Of the
// credentials it knows certificates and tokens in memory.
func WriteKubeconfig(path string, config *rest.Config) error {
	const name = "test"
	content := clientcmdapi.NewConfig()
	content.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	content.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	content.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	content.CurrentContext = name
	// A program that was started with the path a moment ago must not read half of the same again.
	fresh := fmt.Sprintf("%s.%x", path, rand.Uint64())
	if err := clientcmd.WriteToFile(*content, fresh); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return os.Rename(fresh, path)
}
