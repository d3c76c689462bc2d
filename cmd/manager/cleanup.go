package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/controllers/cleanup"
)

// runCleanup takes away what the loops left.
func runCleanup(ctx context.Context, args []string) int {
	c, err := parse("cleanup", args)
	if err != nil {
		return complain("manager cleanup", err)
	}
	log := newLogger(c.config.Log)
	if err := c.cleanUp(ctx); err != nil {
		log.Error(err, "The clean-up is not complete; run it again when the cause is mended")
		return 1
	}
	return 0
}

func (c command) cleanUp(ctx context.Context) error {
	kube, err := c.rest()
	if err != nil {
		return err
	}
	found, err := meet(ctx, kube, newLogger(c.config.Log))
	if err != nil {
		return err
	}
	direct, err := client.New(kube, client.Options{Scheme: found.scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return cleanup.Run(ctx, cleanup.Options{
		Client: direct, Lease: client.ObjectKey{Namespace: c.leaseNamespace(), Name: leaseName},
		Namespace: cmp.Or(c.home(), defaultNamespace), Force: c.force, DryRun: c.dryRun, Out: os.Stdout, Now: time.Now(),
	})
}

// defaultNamespace is where config/default puts the manager.
const defaultNamespace = "clusterip-operator-system"

// namespaceFile is where a pod finds its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// leaseNamespace is where the manager keeps its Lease: where it was told to, in the pod's namespace, or, outside
// of a pod, where config/default puts it.
func (c command) leaseNamespace() string {
	return cmp.Or(c.config.LeaderElection.Namespace, c.home(), defaultNamespace)
}

// home is the namespace of the operator: what was said, or that of the pod. It is empty outside of a pod.
func (c command) home() string {
	if ns := cmp.Or(c.config.Namespace, os.Getenv("POD_NAMESPACE")); ns != "" {
		return ns
	}
	text, _ := os.ReadFile(namespaceFile)
	return strings.TrimSpace(string(text))
}
