package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Kubectl runs kubectl 1.36 and returns what it printed to stdout. The error holds what it printed to stderr.
func Kubectl(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	return KubectlWithInput(ctx, kubeconfig, "", args...)
}

// KubectlWithInput is Kubectl with something to read on stdin, for "apply -f -".
func KubectlWithInput(ctx context.Context, kubeconfig, stdin string, args ...string) (stdout string, err error) {
	path, err := program(island136, "kubectl")
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
