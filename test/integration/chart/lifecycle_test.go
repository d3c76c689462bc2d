package chart_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/audit"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/history"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/traffic"
)

// uninstall is the name of the Job, and of its account.
const uninstall = "clusterip-operator-uninstall"

// second makes the chart of a later version, whose kind says something else of itself.
func second(ctx context.Context) (chart string) {
	GinkgoHelper()
	changed := filepath.Join(GinkgoT().TempDir(), "config")
	Expect(os.CopyFS(changed, os.DirFS(config))).To(Succeed())
	file := changed + "/crd/clusterip-operator.io_servicecidrpolicies.yaml"
	text := string(suite.Must(os.ReadFile(file)))
	Expect(text).To(ContainSubstring("ServiceCIDRPolicy says which"))
	Expect(os.WriteFile(file, []byte(strings.ReplaceAll(text, "ServiceCIDRPolicy says which", "ServiceCIDRPolicy tells which")), 0o600)).To(Succeed())
	return made(ctx, changed, "v1.3.0", strings.Replace(image, "1.2.3", "1.3.0", 1)) + "/clusterip-operator"
}

// endJob acts for kube-controller-manager and a node: it waits for the Job, runs what its pod would
// run, with the token of its account, and reports how it ended.
func endJob(ctx context.Context, c *cluster.Cluster) (output string, status int) {
	GinkgoHelper()
	jobs := c.Client().BatchV1().Jobs(cluster.OperatorNamespace)
	var job *batchv1.Job
	Eventually(func() (err error) {
		job, err = jobs.Get(ctx, uninstall, metav1.GetOptions{})
		if err == nil && job.Status.StartTime != nil {
			return os.ErrExist // that of the attempt before
		}
		return err
	}).Should(Succeed())
	pod := job.Spec.Template.Spec
	token := suite.Must(c.ConfigForServiceAccount(ctx, cluster.OperatorNamespace, pod.ServiceAccountName))
	running, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	output, status, err := c.RunManager(running, framework.ManagerOptions{
		Race: true, Kubeconfig: cluster.KubeconfigOf(token), Args: append(pod.Containers[0].Args, "--namespace="+cluster.OperatorNamespace),
	})
	Expect(err).NotTo(HaveOccurred())
	report := batchv1.JobStatus{StartTime: new(metav1.Now()), Failed: 1}
	conditions := []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
	if status == 0 {
		report = batchv1.JobStatus{StartTime: new(metav1.Now()), CompletionTime: new(metav1.Now()), Succeeded: 1}
		conditions = []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	}
	for _, kind := range conditions {
		report.Conditions = append(report.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	}
	patch := suite.Must(json.Marshal(map[string]any{"status": report}))
	Expect(jobs.Patch(ctx, uninstall, types.MergePatchType, patch, metav1.PatchOptions{}, "status")).Error().NotTo(HaveOccurred())
	return output, status
}

// aside runs do beside the spec, and returns a channel that is closed at its end.
func aside(do func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		do()
	}()
	return done
}

// ofOurs lists what is left of the operator's objects, but for Events and Leases.
func ofOurs(ctx context.Context, c *cluster.Cluster) (names []string) {
	GinkgoHelper()
	output := c.Kubectl(ctx, "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,"+
		"clusterroles,clusterrolebindings,customresourcedefinitions,deployments,jobs,services,configmaps,secrets,serviceaccounts,roles,rolebindings,"+
		"networkpolicies,poddisruptionbudgets", "--namespace="+cluster.OperatorNamespace, "-o", "name")
	for line := range strings.Lines(output) {
		if strings.Contains(line, "clusterip-operator") {
			names = append(names, strings.TrimSpace(line))
		}
	}
	return names
}

// release is one on a cluster, with the charts of two versions.
type release struct {
	*cluster.Cluster
	admin
	log          audit.Log
	first, later string
}

// One release, from its first day to its last one, and back.
var _ = It("A release is installed, upgraded under load, uninstalled, and comes back", Label("long"), func(ctx SpecContext) {
	log, flags := history.NewLog()
	r := release{Cluster: cluster.Start(ctx, cluster.Options{WithoutOperator: true, Options: framework.Options{Args: flags}}), log: log}
	r.Balancer = suite.Must(r.StartBalancer())
	r.admin = newAdmin(r.Kubeconfig())
	port := strconv.Itoa(r.Balancer.Port())
	r.first, r.later = led(chartOf(ctx), port), led(second(ctx), port)

	By("installing it")
	r.install(ctx)
	By("upgrading it")
	r.upgrade(ctx)
	By("uninstalling it")
	r.uninstall(ctx)
	By("installing it again")
	r.comeBack(ctx)
})

func (r release) install(ctx context.Context) {
	GinkgoHelper()
	r.helm(ctx, "install", "release", r.first, "--create-namespace", "--set=components.networkPolicy=true")
	r.AddReplicas(ctx, 2)
	r.CreateServiceCIDR(ctx, "team", "10.120.0.0/22", "fd00:10:120::/118")
	r.WaitLookedAfter(ctx, "team")
	r.Program(ctx, "team", "{serviceCIDRs: [team], reservations: [{name: dns, address: 10.120.0.10}]}")
	Eventually(r.Kept).WithArguments(ctx, cluster.Reservation).Should(ConsistOf("10.120.0.10"))
	service := r.CreateService(ctx, "steered", framework.RequireDualStack())
	Expect(service.Spec.ClusterIPs).To(HaveExactElements(HavePrefix("10.120."), HavePrefix("fd00:10:120:")))
}

// upgrade replaces one replica after the other, as a Deployment does. The API server must go on to
// trust the webhooks, and to ask them: no Service passes unsteered.
func (r release) upgrade(ctx context.Context) {
	GinkgoHelper()
	authorities := r.Authorities(ctx)
	policy := r.Policy(ctx, "team")
	crowd := traffic.NewCrowd(r.Cluster, "load", 4, 100)
	loaded, stop := context.WithCancel(ctx)
	defer stop()
	ended := aside(func() {
		for loaded.Err() == nil {
			crowd.Create(ctx, 20)
		}
	})
	advance := func() {
		GinkgoHelper()
		done := crowd.Done()
		Eventually(crowd.Done).Should(BeNumerically(">", done+20))
	}

	advance()
	r.helm(ctx, "upgrade", "release", r.later, "--reuse-values")
	advance()
	Expect(r.Authorities(ctx)).To(Equal(authorities), "what the manager has entered is not Helm's to take away")
	for _, leaving := range r.Replicas() {
		r.LaunchReplica(ctx, "", r.OperatorKubeconfig(r.Access))
		r.WaitServing(ctx)
		r.Balancer.Remove(leaving.WebhookAddress())
		advance()
		r.RemoveReplica(leaving)
	}
	advance()
	stop()
	Eventually(ended).Should(BeClosed())

	Expect(crowd.Tally.Failures()).To(BeEmpty(), "%s", &crowd.Tally)
	created := 0
	for _, e := range history.Requests(r.log) {
		if e.Resource == "services" && e.Verb == "create" && strings.HasPrefix(e.Name, "load-") {
			created++
			Expect(e.Chosen).To(Equal(history.ByWebhook), e.Name)
			Expect(e.Addresses()).To(ConsistOf(HavePrefix("10.120."), HavePrefix("fd00:10:120:")), e.Name)
		}
	}
	Expect(created).To(BeNumerically(">=", 100))
	Expect(r.Kubectl(ctx, "get", "crd", "servicecidrpolicies.clusterip-operator.io", "-o", "yaml")).To(ContainSubstring("ServiceCIDRPolicy tells which"))
	Expect(r.Policy(ctx, "team").UID).To(Equal(policy.UID))
	Expect(r.Kubectl(ctx, "get", "deployment", "-n", cluster.OperatorNamespace, "-o", "jsonpath={.items[*].spec.template.spec.containers[*].image}")).
		To(HaveSuffix("manager:v1.3.0"), "reused values are those of the admin")
}

// uninstall does so while a manager still runs, which Helm has to say, and anew: the hook comes
// when all else is deleted, and Helm forgets a release whatever becomes of its hooks.
func (r release) uninstall(ctx context.Context) {
	GinkgoHelper()
	leave := func() (output string, status int, err error) {
		GinkgoHelper()
		ended := aside(func() { output, err = r.try(ctx, "uninstall", "release") })
		said, status := endJob(ctx, r.Cluster)
		Eventually(ended).Should(BeClosed())
		return output + said, status, err
	}
	output, status, err := leave()
	Expect(status).To(Equal(1), output)
	Expect(err).To(HaveOccurred(), output)
	Expect(output).To(ContainSubstring("uninstallation completed with 1 error(s)"))
	Expect(r.ServiceCIDR(ctx, "team").Finalizers).To(ContainElement(cluster.OurFinalizer))
	r.StopReplicas()
	// With its permissions the manager has lost that to give its Lease back. A Job's retries wait.
	lease := suite.Must(r.Client().CoordinationV1().Leases(cluster.OperatorNamespace).Get(ctx, "clusterip-operator", metav1.GetOptions{}))
	Eventually(time.Now).Should(BeTemporally(">", lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second)))

	r.helm(ctx, "install", "release", r.later)
	output, status, err = leave()
	Expect(status).To(BeZero(), output)
	Expect(err).NotTo(HaveOccurred(), output)
	Expect(ofOurs(ctx, r.Cluster)).To(ConsistOf("customresourcedefinition.apiextensions.k8s.io/servicecidrpolicies.clusterip-operator.io"))
	Expect(r.Policy(ctx, "team")).NotTo(BeNil(), "policies go only with their kind")
	for _, o := range r.ServiceCIDRs(ctx) {
		Expect(o.Finalizers).NotTo(ContainElement(cluster.OurFinalizer), o.Name)
		Expect(o.Status.Conditions).NotTo(ContainElement(HaveField("Type", HavePrefix("clusterip-operator.io/"))), o.Name)
	}
	Expect(r.Kept(ctx, cluster.Reservation)).To(BeEmpty())
	for _, o := range r.IPAddresses(ctx) {
		Expect(o.Labels).NotTo(HaveKey(cluster.BandLabel), o.Name)
	}
}

// comeBack installs where the kind was kept with its policies.
func (r release) comeBack(ctx context.Context) {
	GinkgoHelper()
	r.helm(ctx, "install", "release", r.later)
	r.AddReplicas(ctx, 1)
	r.WaitProgrammed(ctx, "team")
	service := r.CreateService(ctx, "again", framework.RequireDualStack())
	Expect(service.Spec.ClusterIPs).To(HaveExactElements(HavePrefix("10.120."), HavePrefix("fd00:10:120:")))
}
