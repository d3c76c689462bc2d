package bundle

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// execute runs a program in a pod and returns what it prints, as `kubectl exec` does: each API
// server that we know takes WebSockets.
func execute(ctx context.Context, config *rest.Config, p pod, command ...string) (string, error) {
	c, err := corev1client.NewForConfig(config)
	if err != nil {
		return "", err
	}
	at := c.RESTClient().Get().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: p.Container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	e, err := remotecommand.NewWebSocketExecutor(config, "GET", at.URL().String())
	if err != nil {
		return "", err
	}
	var out, complaint end
	if err := e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &complaint}); err != nil {
		return out.String(), fmt.Errorf("%w %s", err, shortened(strings.TrimSpace(complaint.String())))
	}
	return out.String(), nil
}
