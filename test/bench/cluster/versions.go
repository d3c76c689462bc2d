package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// ServerVersion is what kube-apiserver calls itself, "v1.36.3".
func (c *Cluster) ServerVersion() (string, error) {
	server, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking kube-apiserver for its version: %w", err)
	}
	return server.GitVersion, nil
}

// Versions names the programs of the control plane, "kube-apiserver v1.36.3, etcd 3.7.0".
func (c *Cluster) Versions(ctx context.Context) (string, error) {
	server, err := c.ServerVersion()
	if err != nil {
		return "", err
	}
	etcd, err := c.etcdVersion(ctx)
	if err != nil {
		return "", fmt.Errorf("asking etcd for its version: %w", err)
	}
	return "kube-apiserver " + server + ", etcd " + etcd, nil
}

func (c *Cluster) etcdVersion(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Etcd.URL()+"/version", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct{ Etcdserver string }
	err = json.NewDecoder(response.Body).Decode(&answer)
	return answer.Etcdserver, err
}
