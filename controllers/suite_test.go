// Package controllers_test runs all controllers and webhooks in process, wired as cmd/manager wires
// them, on an API server of envtest. What needs several replicas, another version or a process that
// dies is in test/integration.
//
// Start with operator_test.go.
package controllers_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/controllers"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/internal/timeline"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	RunSpecs(t, "controllers")
}

const (
	namespace = "default"
	// webhookTimeout is how many seconds the API server waits for a webhook, which has one less: no
	// spec is about that. Within the usual two a review of 30,000 conditions was once not read, with
	// the race detector and a busy machine, and the Service passed.
	webhookTimeout int32 = 30
)

var (
	// admin is an admin, against whom webhooks guard; collector the garbage collector, which may pass.
	admin, collector client.Client
	environment      *envtest.Environment
)

var _ = BeforeSuite(func() {
	ctrl.SetLogger(GinkgoLogr)
	environment = start()
	serving := environment.WebhookInstallOptions
	startOperator(fmt.Sprintf("%s:%d", serving.LocalServingHost, serving.LocalServingPort), freeAddress())
	admin = clientFor(environment.Config)
	collector = clientFor(user(environment, "system:serviceaccount:kube-system:generic-garbage-collector"))
})

// start starts an API server of both families with the CRD and the webhooks of config/.
func start() *envtest.Environment {
	GinkgoHelper()
	etcd, apiServer, err := framework.Programs()
	Expect(err).NotTo(HaveOccurred())
	environment := &envtest.Environment{
		CRDDirectoryPaths: []string{"../config/crd"}, ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: webhooks(),
	}
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: etcd}
	server := environment.ControlPlane.GetAPIServer()
	server.Path = apiServer
	server.Configure().Set("service-cluster-ip-range", framework.DefaultServiceClusterIPRange).Set("advertise-address", "192.0.2.1").
		Set("endpoint-reconciler-type", "none")
	suite.Must(environment.Start())
	DeferCleanup(environment.Stop)
	return environment
}

// startOperator runs a replica until the end of the calling node, with webhooks and probes.
func startOperator(webhooks, probes string) {
	GinkgoHelper()
	scheme := suite.Must(kube.NewScheme(networkingv1.SchemeGroupVersion))
	server := user(environment, "operator")
	guard, ctx := timeline.NewGuard(context.Background())
	server.Wrap(guard.Wrap)
	server.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next} })
	lock := suite.Must(controllers.NewLock(server, guard, namespace, "clusterip-operator", "replica", webhooks))
	ctrlmetrics.Registry = prometheus.NewRegistry() // one for each replica, as for each process
	mgr := suite.Must(manager.New(server, manager.Options{
		Scheme: scheme, Cache: kube.CacheOptions(true), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: probes,
		LeaderElection: true, LeaderElectionResourceLockInterface: lock, LeaderElectionReleaseOnCancel: true,
		Controller: config.Controller{SkipNameValidation: new(true)},
	}))
	ctx, end := context.WithCancel(ctx)
	Expect(controllers.Setup(ctx, mgr, controllers.Options{
		BandLabels: true, BandLabelQPS: 50, NearlyFullPercent: 20, NearlyFullWithin: time.Hour,
		GroupVersion: networkingv1.SchemeGroupVersion, Policies: true, Namespace: namespace, Lock: lock,
		Webhook: controllers.Webhook{BindAddress: webhooks, CertDir: environment.WebhookInstallOptions.LocalServingCertDir, NetworkOverlap: "Warn", Budget: time.Duration(webhookTimeout-1) * time.Second},
	})).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		end()
		Eventually(ended).Should(Receive(Succeed()))
	})
	Eventually(ready).WithArguments(probes).Should(Succeed())
}

// reads is how often the operator has read a single Service of a prefix of names from the API
// server.
var reads struct {
	sync.Mutex
	prefix string
	n      int
}

// counting counts the reads of Services on their way.
type counting struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	reads.Lock()
	if reads.prefix != "" && r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"+namespace+"/services/"+reads.prefix) {
		reads.n++
	}
	reads.Unlock()
	return c.next.RoundTrip(r)
}

// readsOf counts from now on, and returns the count.
func readsOf(prefix string) func() int {
	reads.Lock()
	defer reads.Unlock()
	reads.prefix, reads.n = prefix, 0
	return func() int {
		reads.Lock()
		defer reads.Unlock()
		return reads.n
	}
}

// ready asks a replica whether it is.
func ready(probes string) error {
	answer, err := http.Get("http://" + probes + "/readyz")
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", answer.Status)
	}
	return nil
}

// freeAddress is one on loopback on which no process listens.
func freeAddress() string {
	GinkgoHelper()
	listener := suite.Must(net.Listen("tcp", "127.0.0.1:0"))
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// user is an administrator of another name.
func user(environment *envtest.Environment, name string) *rest.Config {
	GinkgoHelper()
	authenticated := suite.Must(environment.AddUser(envtest.User{Name: name, Groups: []string{"system:masters"}}, nil))
	return authenticated.Config()
}

func clientFor(server *rest.Config) client.Client {
	GinkgoHelper()
	scheme := suite.Must(kube.NewScheme(networkingv1.SchemeGroupVersion))
	c := suite.Must(client.New(server, client.Options{Scheme: scheme}))
	return c
}

// webhooks are those of config/webhook, with the time-out of tests.
func webhooks() envtest.WebhookInstallOptions {
	GinkgoHelper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for file, into := range map[string]any{"mutating.yaml": mutating, "validating.yaml": validating} {
		content := suite.Must(os.ReadFile(filepath.Join("../config/webhook", file)))
		Expect(yaml.UnmarshalStrict(content, into)).To(Succeed())
	}
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].TimeoutSeconds = new(webhookTimeout)
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].TimeoutSeconds = new(webhookTimeout)
	}
	return envtest.WebhookInstallOptions{
		MutatingWebhooks:   []*admissionregistrationv1.MutatingWebhookConfiguration{mutating},
		ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{validating},
	}
}
