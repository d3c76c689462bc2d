package upgrade_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// The ranges of stopped clusters.
const (
	twoFamilies = "10.96.0.0/16,fd00:10:96::/112"
	onlyIPv4    = "10.96.0.0/16"
	ipv6First   = "fd00:10:96::/112,10.96.0.0/16"
)

// The API servers of a cluster's life.
var (
	// old allocates from the bitmap and serves IPAddresses, gate off.
	old = framework.Options{Version: framework.V132}
	// oldest is old without the API of IPAddresses, as 1.32 comes.
	oldest = framework.Options{Version: framework.V132, Args: []string{"--runtime-config=networking.k8s.io/v1beta1=false"}}
	// newer expects an IPAddress for each ClusterIP and repairs what it does not find.
	newer = framework.Options{Version: framework.V137}

	// minor33 takes addresses from the bitmap, then writes an IPAddress; so does dualWriting, which is
	// minor34 but for its gate. minor34 does not look at the bitmap.
	minor33     = framework.Options{Version: framework.V133}
	minor34     = framework.Options{Version: framework.V134}
	minor36     = framework.Options{Version: framework.V136} // knows nothing but IPAddresses, like newer
	dualWriting = framework.Options{Version: framework.V134, FeatureGates: map[string]bool{"DisableAllocatorDualWrite": false}}
)

// elsewhere is a namespace of Services beside cluster.Namespace.
const elsewhere = "shop"

// stoppedCluster is one in a folder, built when a spec first asks. Each spec gets a copy.
type stoppedCluster struct {
	name   string
	ranges string
	// build plays on a cluster of server until the cluster is as it should be.
	server framework.Options
	build  func(ctx context.Context, s *environment)
	// from is the stopped cluster that this one goes on from, nil for an empty one.
	from *stoppedCluster
}

// Clusters on the bitmap. Of the many Services, at least three thousand have a ClusterIP.
var (
	manyServices = onBitmap("many", twoFamilies, 4200)
	fewServices  = onBitmap("few", twoFamilies, 400)
	fewIPv4      = onBitmap("few-ipv4", onlyIPv4, 400)
	fewIPv6First = onBitmap("few-ipv6-first", ipv6First, 400)
)

func onBitmap(name, ranges string, n int) *stoppedCluster {
	return &stoppedCluster{name: name, ranges: ranges, server: old, build: func(ctx context.Context, s *environment) { s.populate(ctx, n) }}
}

// open starts a cluster on a copy of the stopped one, which ends with the calling node.
func (y *stoppedCluster) open(ctx context.Context, server framework.Options) *environment {
	GinkgoHelper()
	y.prepare(ctx)
	dir := newFolder(y.name + "-copy-")
	Expect(os.CopyFS(dir, os.DirFS(y.dir()))).To(Succeed())
	return newEnvironment(ctx, y.ranges, dir, server)
}

func (y *stoppedCluster) dir() string { return filepath.Join(storeroom, y.name) }

// prepare builds the cluster once. A failed build leaves nothing: each spec fails by itself.
func (y *stoppedCluster) prepare(ctx context.Context) {
	GinkgoHelper()
	if _, err := os.Stat(y.dir()); err == nil {
		return
	}
	By("building the cluster " + y.name)
	s := y.raw(ctx)
	y.build(ctx, s)
	Expect(s.API.Stop()).To(Succeed())
	Expect(s.Etcd.Stop()).To(Succeed())
	finished := newFolder(y.name + "-finished-")
	Expect(os.CopyFS(finished, os.DirFS(s.Dir()))).To(Succeed())
	Expect(os.Rename(finished, y.dir())).To(Succeed())
}

// raw is the cluster before it is built and stopped.
func (y *stoppedCluster) raw(ctx context.Context) *environment {
	GinkgoHelper()
	if y.from != nil {
		return y.from.open(ctx, y.server)
	}
	return newEnvironment(ctx, y.ranges, newFolder(y.name+"-raw-"), y.server)
}

// newFolder is one that ends with the calling node.
func newFolder(prefix string) string {
	GinkgoHelper()
	dir, err := os.MkdirTemp(storeroom, prefix)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	return dir
}

// populate creates n Services of all kinds, deletes a tenth, leaving holes, and changes some types.
func (s *environment) populate(ctx context.Context, n int) {
	GinkgoHelper()
	s.CreateNamespace(ctx, elsewhere, nil)
	services := s.CreateServices(ctx, n, s.service)
	var unlucky []*corev1.Service
	for i := 9; i < n; i += 10 {
		unlucky = append(unlucky, services[i])
	}
	s.DeleteServices(ctx, unlucky...)
	for i := 1; i < n/5; i += 60 {
		s.PatchServices(ctx, toClusterIP, services[i])      // built as ExternalName
		s.PatchServices(ctx, toExternalName, services[i+6]) // built with two families
	}
}

// service builds the i-th Service of a cluster. Of twelve, one is headless, one an ExternalName.
func (s *environment) service(i int) *corev1.Service {
	families := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	var options []framework.ServiceOption
	switch {
	case i%12 == 0:
		options = append(options, framework.Headless())
	case i%12 == 1:
		options = append(options, framework.ExternalName("example.com"))
	case i%12 == 2:
		options = append(options, framework.WithType(corev1.ServiceTypeNodePort))
	case i%12 == 3:
		options = append(options, framework.WithType(corev1.ServiceTypeLoadBalancer), framework.PreferDualStack())
	case i%12 == 4 && s.dual():
		options = append(options, framework.WithFamilies(families[i/12%2]))
	case i%12 == 5 && s.dual():
		options = append(options, framework.WithFamilies(families[i/12%2], families[1-i/12%2]), framework.RequireDualStack())
	case i%2 == 0:
		options = append(options, framework.PreferDualStack())
	}
	namespace := []string{cluster.Namespace, elsewhere}[i%3/2]
	return framework.NewService(namespace, fmt.Sprintf("web-%d", i), options...)
}

func (s *environment) dual() bool { return strings.Contains(s.ranges, ",") }

// Merge patches that give a Service its ClusterIPs and take them away.
const (
	toClusterIP    = `{"spec":{"type":"ClusterIP","externalName":null}}`
	toExternalName = `{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":null,"clusterIPs":null}}`
)
