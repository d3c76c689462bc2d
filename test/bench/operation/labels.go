package operation

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Labels is the first start of a manager that labels, in a cluster without band labels.
type Labels struct {
	// Written is how many IPAddresses were labelled in Took.
	Written int
	Took    time.Duration
	// Manager, API and Etcd are the processor times of that.
	Manager, API, Etcd time.Duration
}

// watchLabels follows the labelling from where it is to its end.
func watchLabels(ctx context.Context, c *cluster.Cluster, m *framework.Manager, log *progress.Log) (l Labels, err error) {
	start, told := time.Now(), time.Now()
	usage, err := readCPU(m, c.API, c.Etcd)
	if err != nil {
		return l, err
	}
	before, err := labelled(ctx, c)
	if err != nil {
		return l, err
	}
	log.Step("labelling; %d of %d have their band", before, c.Addresses())
	l.Took, err = since(ctx, start, m, func(f framework.Metrics) bool {
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			waiting, _ := f.Value("workqueue_depth", "name", "bandlabel")
			log.Step("labelling; %.0f wait for their band", waiting)
		}
		return worked(f, "bandlabel", c.Addresses())
	})
	if err != nil {
		return l, fmt.Errorf("waiting for band labels: %w", err)
	}
	if err := usage.sinceThen(&l.Manager, &l.API, &l.Etcd); err != nil {
		return l, err
	}
	after, err := labelled(ctx, c)
	l.Written = after - before
	if err == nil && after != c.Addresses() {
		err = fmt.Errorf("%d of %d IPAddresses have a band label", after, c.Addresses())
	}
	return l, err
}

// labelled counts the IPAddresses with a band label.
func labelled(ctx context.Context, c *cluster.Cluster) (int, error) {
	list, err := c.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelBand})
	if err != nil {
		return 0, fmt.Errorf("counting band labels: %w", err)
	}
	return len(list.Items), nil
}
