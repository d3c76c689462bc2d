// Package guides_test runs every command of the guides in a reader's order, as bash, with kubectl
// and our plugin in the PATH, an empty home, and a copy of config/ as the checkout, on a control
// plane in which nothing is installed. Guides share it, so each must clean up what it made.
//
// notHere lists what is replaced here, and how. There are no nodes: see [environment.actAsNodes].
//
// Start with guides_test.go.
package guides_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/guide"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

func TestGuides(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "guides")
}

// environment is a cluster with an admin's workplace.
type environment struct {
	*cluster.Cluster
	shell guide.Shell
}

// newEnvironment starts a cluster without our operator, which ends with the calling node.
func newEnvironment(ctx context.Context, options cluster.Options) *environment {
	GinkgoHelper()
	options.WithoutOperator = true
	options.Args = append(options.Args, "--allow-privileged=true") // as most clusters have it, for node agents
	e := &environment{Cluster: cluster.Start(ctx, options)}
	e.Balancer = suite.Must(e.StartBalancer())

	home, programs, checkout := GinkgoT().TempDir(), GinkgoT().TempDir(), GinkgoT().TempDir()
	kubectl := suite.Must(framework.Assets("kubernetes-1.37", "kubectl"))
	plugin := suite.Must(framework.PluginProgram())
	Expect(os.Symlink(filepath.Join(kubectl, "kubectl"), filepath.Join(programs, "kubectl"))).To(Succeed())
	Expect(os.Symlink(plugin, filepath.Join(programs, "kubectl-clusterip"))).To(Succeed())
	Expect(os.CopyFS(filepath.Join(checkout, "config"), os.DirFS(filepath.Join(cluster.Repository, "config")))).To(Succeed())
	e.shell = guide.Shell{Dir: checkout, Env: []string{
		"HOME=" + home, "PATH=" + programs + ":/usr/local/bin:/usr/bin:/bin", "KUBECONFIG=" + e.Kubeconfig(), "BIN=" + programs,
		"ETCD=" + strings.Join(e.EtcdArgs(), " "),
	}}
	return e
}

// follow runs the commands of a guide, and does what notHere says in the place of those in it.
func (e *environment) follow(ctx context.Context, name string) {
	GinkgoHelper()
	blocks := suite.Must(guide.Read(filepath.Join(cluster.Repository, name)))
	e.shell.Name = name
	seen := map[string]bool{}
	for _, block := range blocks {
		if block.NotHere != "" {
			instead, known := notHere[name][block.NotHere]
			Expect(known).To(BeTrue(), "%s:%d: notHere does not know of this", name, block.Line)
			seen[block.NotHere] = true
			if instead != nil {
				instead(ctx, e)
			}
			continue
		}
		By(fmt.Sprintf("%s:%d", name, block.Line))
		Expect(e.shell.Run(ctx, block)).To(Succeed())
		e.actAsNodes(ctx)
	}
	Expect(seen).To(HaveLen(len(notHere[name])), "notHere knows of more than is in %s", name)
}

// actAsNodes acts for kube-controller-manager and nodes: it reports pods as ready and, once the
// operator is installed, runs a replica with its permissions and leads the API server to it.
func (e *environment) actAsNodes(ctx context.Context) {
	GinkgoHelper()
	if !e.API.Running() {
		return
	}
	apps := e.Client().AppsV1()
	deployments := suite.Must(apps.Deployments("").List(ctx, metav1.ListOptions{}))
	for _, d := range deployments.Items {
		if n := *d.Spec.Replicas; d.Status.ObservedGeneration != d.Generation {
			suite.Must(apps.Deployments(d.Namespace).Patch(ctx, d.Name, types.MergePatchType, status(appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			}), metav1.PatchOptions{}, "status"))
		}
	}
	sets := suite.Must(apps.DaemonSets("").List(ctx, metav1.ListOptions{}))
	for _, d := range sets.Items {
		if d.Status.ObservedGeneration != d.Generation {
			suite.Must(apps.DaemonSets(d.Namespace).Patch(ctx, d.Name, types.MergePatchType, status(appsv1.DaemonSetStatus{
				ObservedGeneration: d.Generation, DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2, NumberAvailable: 2,
			}), metav1.PatchOptions{}, "status"))
		}
	}
	e.emptyNamespaces(ctx)
	e.runReplicas(ctx, len(deployments.Items) > 0)
}

// emptyNamespaces deletes the Services in namespaces that are being deleted, and lets these go.
func (e *environment) emptyNamespaces(ctx context.Context) {
	GinkgoHelper()
	core := e.Client().CoreV1()
	namespaces := suite.Must(core.Namespaces().List(ctx, metav1.ListOptions{}))
	for _, n := range namespaces.Items {
		if n.DeletionTimestamp == nil {
			continue
		}
		services := suite.Must(core.Services(n.Name).List(ctx, metav1.ListOptions{}))
		for _, s := range services.Items {
			e.DeleteServices(ctx, &s)
		}
		n.Spec.Finalizers = nil
		suite.Must(core.Namespaces().Finalize(ctx, &n, metav1.UpdateOptions{}))
	}
}

func status(of any) []byte {
	GinkgoHelper()
	return suite.Must(json.Marshal(map[string]any{"status": of}))
}

// runReplicas runs a replica if one is wanted, and leads applied webhooks to a port of loopback.
func (e *environment) runReplicas(ctx context.Context, wanted bool) {
	GinkgoHelper()
	applied := e.HasWebhooks(ctx) && e.ClientConfigs(ctx)[0].URL == nil
	if applied {
		e.LeadWebhooks(ctx, manifests.Render(ctx, filepath.Join(cluster.Repository, "config", "default")), e.Balancer.Port())
	}
	switch running := len(e.Replicas()) > 0; {
	case wanted && !running:
		e.AddReplicas(ctx, 1)
	case wanted && applied:
		e.WaitServing(ctx)
	case !wanted && running:
		e.StopReplicas()
	}
}

// objects are the names of what guides make, but for the operator itself and what is being deleted.
func (e *environment) objects(ctx context.Context) (names []string) {
	GinkgoHelper()
	client := e.Client()
	services := suite.Must(client.CoreV1().Services("").List(ctx, metav1.ListOptions{}))
	namespaces := suite.Must(client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}))
	sets := suite.Must(client.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{}))
	add := func(kind string, o metav1.ObjectMeta) {
		if o.DeletionTimestamp == nil && o.Labels["app.kubernetes.io/name"] != "clusterip-operator" {
			names = append(names, kind+" "+o.Namespace+"/"+o.Name)
		}
	}
	for _, o := range services.Items {
		add("Service", o.ObjectMeta)
	}
	for _, o := range namespaces.Items {
		add("Namespace", o.ObjectMeta)
	}
	for _, o := range sets.Items {
		add("DaemonSet", o.ObjectMeta)
	}
	for _, o := range e.ServiceCIDRs(ctx) {
		add("ServiceCIDR", o.ObjectMeta)
	}
	if len(e.Replicas()) > 0 { // the kind is there
		for _, o := range e.AllPolicies(ctx) {
			add("ServiceCIDRPolicy", o.ObjectMeta)
		}
	}
	return names
}
