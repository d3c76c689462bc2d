package migration_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/migrate"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// Exit statuses of the command.
const (
	clean   = 0 // or done
	found   = 1 // findings, or not wholly done
	refused = 2 // it could not tell, or it wrote nothing, or it was asked for something that does not exist
)

// The families of every fixture, IPv4 first.
const (
	range4 = "10.96.0.0/16"
	range6 = "fd00:10:96::/112"
)

var (
	old     = framework.Options{Version: framework.V132, ServiceClusterIPRange: range4 + "," + range6}
	newer   = framework.Options{Version: framework.V137, ServiceClusterIPRange: range4 + "," + range6}
	without = framework.Options{ // like most clusters of its day
		Version: framework.V132, ServiceClusterIPRange: range4 + "," + range6,
		Args: []string{"--runtime-config=networking.k8s.io/v1beta1=false"},
	}
)

// environment is a cluster without our operator, with its storage laid open.
type environment struct {
	*cluster.Cluster
	etcd etcd

	started time.Time // the API server, as far as the spec knows
}

// newEnvironment starts a cluster with Services, which ends with the calling node. It has settled:
// the API server writes only what the spec asks for.
func newEnvironment(ctx context.Context, options framework.Options, services int) *environment {
	GinkgoHelper()
	w := &environment{Cluster: cluster.Start(ctx, cluster.Options{Options: options, WithoutOperator: true}), started: time.Now()}
	w.etcd = etcd{storage.Open(w.Etcd)}
	suite.Must(inventory.Settled(ctx, w.AdminConfig()))
	w.populate(ctx, services)
	return w
}

// unmigrated is a cluster on its old API server, nothing of which is migrated: how many addresses
// its Services have, and what etcd has.
func unmigrated(ctx context.Context, services int) (w *environment, addresses int, before storage.Values) {
	GinkgoHelper()
	w = newEnvironment(ctx, old, services)
	return w, len(w.owners(ctx)), w.etcd.Below(ctx, "")
}

// startOver takes away what commands have written.
func (w *environment) startOver(ctx context.Context, before storage.Values) {
	GinkgoHelper()
	w.etcd.restore(ctx, addressesKey, before)
	w.etcd.restore(ctx, rangesKey, before)
}

// restart brings the same storage under another API server.
func (w *environment) restart(ctx context.Context, options framework.Options) {
	GinkgoHelper()
	Expect(w.Restart(ctx, options)).To(Succeed())
	w.started = time.Now()
	suite.Must(inventory.Settled(ctx, w.AdminConfig()))
}

// calm leaves time to spoil a bitmap: old API servers mend theirs every three minutes from start.
func (w *environment) calm(ctx context.Context) {
	GinkgoHelper()
	if time.Since(w.started) > 2*time.Minute {
		w.restart(ctx, old)
	}
}

// populate creates Services of every kind in both families, with holes between their addresses.
func (w *environment) populate(ctx context.Context, n int) {
	GinkgoHelper()
	services := w.CreateServices(ctx, n, func(i int) *corev1.Service {
		options := []framework.ServiceOption{framework.RequireDualStack()}
		switch i % 8 {
		case 0:
			options = []framework.ServiceOption{framework.Headless()}
		case 1:
			options = []framework.ServiceOption{framework.ExternalName("example.com")}
		case 2:
			options = []framework.ServiceOption{framework.WithFamilies(corev1.IPv6Protocol)}
		case 3:
			options = []framework.ServiceOption{framework.WithType(corev1.ServiceTypeNodePort)}
		case 4:
			options = append(options, framework.WithFamilies(corev1.IPv6Protocol, corev1.IPv4Protocol))
		}
		return framework.NewService(cluster.Namespace, fmt.Sprintf("web-%d", i), options...)
	})
	var holes []*corev1.Service
	for i := 5; i < n; i += 10 {
		holes = append(holes, services[i])
	}
	w.DeleteServices(ctx, holes...)
}

// owners are the Services of every address, by what the API server says.
func (w *environment) owners(ctx context.Context) map[string][]string {
	GinkgoHelper()
	owners := map[string][]string{}
	for _, s := range w.Services(ctx) {
		for _, address := range inventory.ClusterIPs(&s) {
			owners[address] = append(owners[address], s.Namespace+"/"+s.Name)
		}
	}
	return owners
}

// used are the addresses of all Services in a range's family, in order.
func (w *environment) used(ctx context.Context, key string) (all []string) {
	GinkgoHelper()
	for address := range w.owners(ctx) {
		if keyOf(address) == key {
			all = append(all, address)
		}
	}
	slices.Sort(all)
	return all
}

// heal writes both bitmaps as they should be, and only if they are not.
func (w *environment) heal(ctx context.Context) {
	GinkgoHelper()
	for key, spec := range map[string]string{primaryKey: range4, secondaryKey: range6} {
		bitmap := legacy{object: &corev1.RangeAllocation{Range: spec}, bits: new(big.Int)}
		for _, address := range w.used(ctx, key) {
			bitmap.set(address, true)
		}
		if raw := bitmap.encoded(); !bytes.Equal(raw, w.etcd.Get(ctx, key).Raw) {
			w.etcd.Put(ctx, key, raw)
		}
	}
}

// change changes what is stored of a Service, as no API server would.
func (s etcd) change(ctx context.Context, name string, change func(*corev1.Service)) *corev1.Service {
	GinkgoHelper()
	key := servicesKey + cluster.Namespace + "/" + name
	service := storage.Decode[*corev1.Service](s.Get(ctx, key))
	change(service)
	s.Put(ctx, key, storage.Encode(service))
	return service
}

// rewrite is change, and waits until the API server has noticed.
func (w *environment) rewrite(ctx context.Context, name string, change func(*corev1.Service)) {
	GinkgoHelper()
	service := w.etcd.change(ctx, name, change)
	Eventually(func() ([]string, error) {
		now, err := w.Client().CoreV1().Services(cluster.Namespace).Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		return now.Spec.ClusterIPs, nil
	}).WithTimeout(cluster.Timeout).WithPolling(20 * time.Millisecond).Should(Equal(service.Spec.ClusterIPs))
}

// untouched wants no writes to the storage while do runs, but the API server's own. Without an API
// server even the revision must stay. Keys may be excepted.
func (w *environment) untouched(ctx context.Context, do func(), except ...string) {
	GinkgoHelper()
	before, revision := w.etcd.Below(ctx, ""), w.etcd.Revision(ctx)
	do()
	after := w.etcd.Below(ctx, "")
	for _, key := range except {
		delete(before, key)
		delete(after, key)
	}
	Expect(before.Changes(after)).To(BeEmpty())
	if !w.API.Running() {
		Expect(w.etcd.Revision(ctx)).To(Equal(revision))
	}
}

// migrate runs `kubectl clusterip migrate` with the way to etcd, to its end.
func (w *environment) migrate(ctx context.Context, args ...string) framework.PluginResult {
	GinkgoHelper()
	return w.plugin(ctx, w.options(append(args, w.EtcdArgs()...)...))
}

// offline is migrate where no API server is known.
func (w *environment) offline(ctx context.Context, args ...string) framework.PluginResult {
	GinkgoHelper()
	options := w.options(slices.Concat(args, w.EtcdArgs(), []string{"--offline"})...)
	options.Kubeconfig = framework.NoKubeconfig
	return w.plugin(ctx, options)
}

func (w *environment) plugin(ctx context.Context, options framework.PluginOptions) framework.PluginResult {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	return suite.Must(w.RunPlugin(ctx, options))
}

// together is migrate for several commands at once that only read: they mostly wait.
func (w *environment) together(ctx context.Context, commands ...[]string) []framework.PluginResult {
	GinkgoHelper()
	options := make([]framework.PluginOptions, len(commands))
	for i, command := range commands {
		options[i] = w.options(append(slices.Clone(command), w.EtcdArgs()...)...)
	}
	return w.plugins(ctx, options...)
}

func (w *environment) plugins(ctx context.Context, options ...framework.PluginOptions) []framework.PluginResult {
	GinkgoHelper()
	results := make([]framework.PluginResult, len(options))
	var all sync.WaitGroup
	for i, o := range options {
		all.Go(func() {
			defer GinkgoRecover()
			results[i] = w.plugin(ctx, o)
		})
	}
	all.Wait()
	return results
}

func (w *environment) options(args ...string) framework.PluginOptions {
	return framework.PluginOptions{Args: append([]string{"migrate"}, args...)}
}

// watched runs a command with the slow race detector, where many things happen at once.
func watched(options framework.PluginOptions) framework.PluginOptions {
	options.Race = true
	return options
}

// begin starts a command and does not wait. It is killed with the calling node.
func (w *environment) begin(ctx context.Context, options framework.PluginOptions) *framework.Plugin {
	GinkgoHelper()
	plugin := suite.Must(w.StartPlugin(ctx, options))
	DeferCleanup(plugin.Kill)
	return plugin
}

// ends waits for the end of a command, which has nothing to complain about.
func ends(ctx context.Context, plugin *framework.Plugin) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	code := suite.Must(plugin.Wait(ctx))
	Expect(code).To(Equal(clean), func() string { return plugin.LogTail(60) })
}

// with wants a command to have ended with this status, and returns it. A refusal has to say why.
func with(status int, result framework.PluginResult) framework.PluginResult {
	GinkgoHelper()
	Expect(result.ExitCode).To(Equal(status), result.String())
	if status == refused {
		Expect(strings.TrimSpace(result.Stderr)).NotTo(BeEmpty(), result.String())
	}
	Expect(result.Stderr).NotTo(ContainSubstring("panic:"))
	return result
}

// check is what the check command says about the cluster. It reads etcd alone, which is faster:
// beside an API server it looks again after seconds before it calls anything wrong.
func (w *environment) check(ctx context.Context, status int) migrate.Output {
	GinkgoHelper()
	return migrate.Decode(with(status, w.offline(ctx, "check", "-o", "json")).Stdout)
}

// migrated runs the migration to its end and wants it to be whole.
func (w *environment) migrated(ctx context.Context) {
	GinkgoHelper()
	with(clean, w.migrate(ctx, "run"))
	Expect(w.Breaches(ctx)).To(BeEmpty())
}

// writtenOnce wants that each IPAddress has been written once, no more.
func (w *environment) writtenOnce(ctx context.Context) {
	GinkgoHelper()
	for key, value := range w.etcd.Below(ctx, addressesKey) {
		Expect(value.Version).To(BeEquivalentTo(1), key)
	}
}

// unpack takes a stored value out of its envelope.
func unpack(raw []byte) (kind metav1.TypeMeta, inside []byte) {
	GinkgoHelper()
	rest, found := bytes.CutPrefix(raw, []byte("k8s\x00"))
	Expect(found).To(BeTrue(), "%q", raw)
	var unknown runtime.Unknown
	Expect(unknown.Unmarshal(rest)).To(Succeed())
	return metav1.TypeMeta{APIVersion: unknown.APIVersion, Kind: unknown.Kind}, unknown.Raw
}

// chance is the spec's source of accidents. `-ginkgo.seed` brings them back.
func chance() *rand.Rand {
	return rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 3)) //nolint:gosec // an accident is no secret
}

// noise is a number of random bytes.
func noise(n int) []byte {
	random, all := chance(), []byte{}
	for len(all) < n {
		all = binary.LittleEndian.AppendUint64(all, random.Uint64())
	}
	return all[:n]
}

func file(name, content string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), name)
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

// freeAddress is one of the static band that no Service uses.
func (w *environment) freeAddress(ctx context.Context, prefix string) string {
	GinkgoHelper()
	owners := w.owners(ctx)
	for i := range 200 {
		address := fmt.Sprintf("%s%x", prefix, 0x20+i)
		if strings.Contains(prefix, ".") {
			address = fmt.Sprintf("%s%d", prefix, 20+i)
		}
		if _, used := owners[address]; !used && w.IPAddress(ctx, address) == nil {
			return address
		}
	}
	Fail("no free address with " + prefix)
	return ""
}

// some returns a Service's address of the family of a key, and the Service's name.
func (w *environment) some(ctx context.Context, key string) (address, name string) {
	GinkgoHelper()
	owners := w.owners(ctx)
	for _, address := range slices.Sorted(maps.Keys(owners)) {
		namespace, name, _ := strings.Cut(owners[address][0], "/")
		if keyOf(address) == key && namespace == cluster.Namespace && name != "kubernetes" {
			return address, name
		}
	}
	Fail("no Service has an address of " + key)
	return "", ""
}
