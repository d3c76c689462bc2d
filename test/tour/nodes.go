package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// images are what nodes need: the product, and an application.
var images = []string{"manager", "proxyagent", "demo"}

// prepareNodes fetches what nodes consist of, and leaves the network of the machine.
func prepareNodes(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("it takes root to make namespaces")
	}
	if err := cluster.Fetch(ctx, images); err != nil {
		return err
	}
	return network.Enter()
}

// onNodes is the tour with everything in pods.
func (t *tour) onNodes() []step {
	return append([]step{
		{"Start a control plane, and two nodes with containerd and kubelet", t.startNodes},
		{"Apply config/proxyagent, with the address of the API server filled in: the agent is the only Service proxy", t.deployAgent},
		{"Apply config/default: two replicas of the manager, whose webhooks the API server reaches by their Service", t.deployManager},
		{"Put an application behind a Service, and ask it from another pod", t.deployDemo},
	}, t.steps()...)
}

func (t *tour) startNodes(ctx context.Context) error {
	c, err := cluster.Start(ctx, cluster.Options{Images: images})
	if err != nil {
		return err
	}
	t.plane, t.stop = c.ControlPlane, c.Stop
	if t.config, err = c.Configuration(); err != nil {
		return err
	}
	t.prefix = fmt.Sprintf("nsenter --net=/proc/%d/ns/net ", os.Getpid())
	t.goOn = func() string {
		return fmt.Sprintf("  kubectl get pods -A -o wide\n  tail -f %s/node-1/kubelet.log", t.plane.Dir())
	}
	_, err = t.kubectl(ctx, "get", "nodes", "-o", "wide")
	return err
}

func (t *tour) deployAgent(ctx context.Context) error {
	if _, err := t.kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(t.config, "proxyagent")); err != nil {
		return err
	}
	_, err := t.kubectl(ctx, "-n", "kube-system", "rollout", "status", "daemonset/clusterip-operator-proxyagent", "--timeout=90s")
	return err
}

func (t *tour) deployManager(ctx context.Context) error {
	if err := t.applyConfig(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"rollout", "status", "deployment/" + operatorDeployment, "--timeout=90s"},
		{"get", "pods", "-o", "wide"},
	} {
		if _, err := t.kubectl(ctx, append([]string{"-n", operatorNamespace}, args...)...); err != nil {
			return err
		}
	}
	t.metrics = t.podMetrics
	return t.awaitOperator(ctx)
}

// podMetrics asks a replica, as a scraper does that is in the cluster.
func (t *tour) podMetrics(ctx context.Context) (framework.Metrics, error) {
	const reader = "default"
	if _, err := framework.Kubectl(ctx, t.plane.Kubeconfig(), "create", "clusterrolebinding", "tour-metrics", "--clusterrole=clusterip-operator-metrics-reader",
		"--serviceaccount="+metav1.NamespaceDefault+":"+reader); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
		return nil, err
	}
	token, err := t.plane.TokenFor(ctx, metav1.NamespaceDefault, reader)
	if err != nil {
		return nil, err
	}
	pods, err := t.plane.Client().CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodRunning)})
	if err != nil || len(pods.Items) == 0 {
		return nil, errors.Join(errors.New("no replica of the manager runs"), err)
	}
	return framework.Scrape(ctx, fmt.Sprintf("https://%s:8443/metrics", pods.Items[0].Status.PodIP), token)
}

// deployDemo asks the application's Service, at both addresses, until every replica has answered.
func (t *tour) deployDemo(ctx context.Context) error {
	for _, args := range [][]string{
		{"create", "deployment", "demo", "--image=clusterip-operator/demo:dev", "--replicas=2"},
		{"rollout", "status", "deployment/demo", "--timeout=60s"},
	} {
		if _, err := t.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	service := framework.NewService(metav1.NamespaceDefault, "demo", framework.RequireDualStack())
	service.Spec.Selector = map[string]string{"app": "demo"}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
	made, err := t.plane.Client().CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for _, a := range made.Spec.ClusterIPs {
		host := a
		if strings.Contains(a, ":") {
			host = "[" + a + "]"
		}
		answers := map[string]bool{}
		err := eventually(ctx, "both replicas to answer at "+a, 30*time.Second, func() (bool, error) {
			out, err := framework.Kubectl(ctx, t.plane.Kubeconfig(), "exec", "deployment/demo", "--", "/demo", "http://"+host)
			if name, _, ok := strings.Cut(out, " answers "); ok && !answers[name] {
				answers[name] = true
				t.say("      $ kubectl exec deployment/demo -- /demo http://%s\n      %s", host, strings.TrimSpace(out))
			}
			return len(answers) == 2, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
