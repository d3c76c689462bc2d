package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration/condition"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration/etcdstore"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
)

// connection says where a cluster is read from and written to.
type connection struct {
	kube    *kubeFlags
	etcd    etcdstore.Config
	offline bool
	ranges  string
}

func (c *connection) addFlags(f *pflag.FlagSet) {
	c.addEtcdFlags(f)
	f.BoolVar(&c.offline, "offline", false, "do not ask an API server: read everything from etcd")
	f.StringVar(&c.ranges, "service-cluster-ip-range", "", "what kube-apiserver is started with, primary range first; needed where neither bitmaps nor ServiceCIDR \"kubernetes\" tell it")
}

// addEtcdFlags adds those that lead to the bitmaps.
func (c *connection) addEtcdFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&c.etcd.Endpoints, "etcd-servers", nil, "URLs of etcd, as kube-apiserver has them; without it the bitmaps are not looked at")
	f.StringVar(&c.etcd.CAFile, "etcd-cafile", "", "file of the CA that has signed etcd's certificate")
	f.StringVar(&c.etcd.CertFile, "etcd-certfile", "", "file of the client certificate for etcd")
	f.StringVar(&c.etcd.KeyFile, "etcd-keyfile", "", "file of the client certificate's key")
	f.StringVar(&c.etcd.Prefix, "etcd-prefix", "/registry", "prefix of all keys of the API server")
}

// link is an open connection.
type link struct {
	migration.Sources
	// config is how to reach the API server, nil when offline.
	config *rest.Config
	close  func()
}

// open connects to what the flags name, and makes sure that it is one cluster.
func (c *connection) open(ctx context.Context, needs ...need) (*link, error) {
	if err := c.validate(needs); err != nil {
		return nil, err
	}
	now := &serverClock{}
	l := &link{Sources: migration.Sources{Clock: now}, close: func() {}}
	var err error
	if l.Ranges, err = parseRanges(c.ranges); err != nil {
		return nil, err
	}
	if !c.offline {
		if err := c.openAPI(l, now); err != nil {
			return nil, err
		}
	}
	if len(c.etcd.Endpoints) > 0 {
		store, err := etcdstore.Open(ctx, c.etcd)
		if err != nil {
			return nil, err
		}
		l.Store, l.close = store, func() { _ = store.Close() }
	}
	if l.Store != nil && l.API != nil { // who keeps the bitmaps that are in there; without the right to ask, the version of the one that answers has to do
		if l.Servers, err = migration.APIServers(ctx, l.config); err != nil && !apierrors.IsForbidden(err) {
			l.close()
			return nil, err
		}
	}
	if err := l.Check(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// need is something that a command cannot do without.
type need string

const (
	needEtcd need = "etcd"
	needAPI  need = "an API server"
)

func (c *connection) validate(needs []need) error {
	for _, n := range needs {
		switch {
		case n == needEtcd && len(c.etcd.Endpoints) == 0:
			return errors.New("this command works on etcd: give --etcd-servers, and the files of a client certificate if etcd wants one")
		case n == needAPI && c.offline:
			return errors.New("this command needs an API server: leave out --offline")
		}
	}
	if c.offline && len(c.etcd.Endpoints) == 0 {
		return errors.New("--offline reads everything from etcd: give --etcd-servers")
	}
	return nil
}

func (c *connection) openAPI(l *link, now *serverClock) error {
	config, err := c.kube.rest()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1 // what is written is limited by --qps
	config.Wrap(now.observe)
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " kubectl-clusterip"
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	if l.Version, err = d.ServerVersion(); err != nil {
		return fmt.Errorf("asking the API server at %s for its version: %w; with --offline everything is read from etcd", config.Host, err)
	}
	gv, err := kube.Discover(d)
	if err != nil && !errors.Is(err, kube.ErrNotServed) {
		return err
	}
	l.config, l.Served, l.APIVersion = config, err == nil, gv.String()
	if !l.Served {
		gv = networkingv1.SchemeGroupVersion // a scheme wants one; these kinds are not asked for
	}
	scheme, err := kube.NewScheme(gv)
	if err != nil {
		return err
	}
	l.API, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

// parseRanges reads --service-cluster-ip-range as kube-apiserver does.
func parseRanges(text string) (out []netip.Prefix, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		r, err := allocator.ParseRange(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("--service-cluster-ip-range: %w", err)
		}
		out = append(out, r.Prefix())
	}
	if len(out) > 2 || len(out) == 2 && out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil, fmt.Errorf("--service-cluster-ip-range %q: give one range, or two of different families", text)
	}
	return out, nil
}

// serves explains what to do where the API server does not serve the kinds.
func (l *link) serves() error {
	if l.Served {
		return nil
	}
	return fmt.Errorf("%w; or let `migrate seed --etcd` write the IPAddresses into etcd (server version %s)", kube.ErrNotServed, versionText(l.Version))
}

func versionText(v *apiversion.Info) string {
	if v == nil {
		return "unknown"
	}
	return v.GitVersion
}

// streams are where a command writes.
type streams struct{ Out, ErrOut io.Writer }

// kubeFlags are kubectl's own flags for reaching a cluster.
type kubeFlags struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

func newKubeFlags() *kubeFlags {
	return &kubeFlags{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
}

func (k *kubeFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&k.rules.ExplicitPath, "kubeconfig", "", "path to the kubeconfig file")
	clientcmd.BindOverrideFlags(&k.overrides, f, clientcmd.RecommendedConfigOverrideFlags(""))
}

// rest says how to connect: by flags, else $KUBECONFIG, ~/.kube/config or a pod's ServiceAccount.
func (k *kubeFlags) rest() (*rest.Config, error) { return k.config().ClientConfig() }

// namespace is that of the flags, or of the context.
func (k *kubeFlags) namespace() (string, error) {
	name, _, err := k.config().Namespace()
	return name, err
}

func (k *kubeFlags) config() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &k.overrides)
}

// serverClock tells the API server's time, by which the age of objects is measured: a workstation
// that is a minute ahead would grant no grace. Until the API server answers it tells local time.
type serverClock struct {
	ahead atomic.Int64 // of the server, in nanoseconds
}

var _ clock.PassiveClock = (*serverClock)(nil)

// Now implements clock.PassiveClock.
func (c *serverClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Since implements clock.PassiveClock.
func (c *serverClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// observe reads the time off passing answers. They tell seconds: smaller differences are ignored.
func (c *serverClock) observe(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil {
			c.read(response.Header.Get("Date"))
		}
		return response, err
	})
}

func (c *serverClock) read(date string) {
	server, err := http.ParseTime(date)
	if err != nil {
		return
	}
	ahead := time.Until(server)
	if ahead.Abs() < 2*time.Second {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}

// roundTripper is a function as http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// tellCondition writes into the cluster how far its migration is.
func (m *migrate) tellCondition(ctx context.Context, l *link, p migration.Plan) {
	if p.Snapshot.Allocator == migration.AllocatorBitmap && l.Served {
		others := len(p.StopFlip()) - (p.Addresses - p.OK)
		m.courtesy(ctx, condition.Write(ctx, l.API, l.APIVersion, condition.Counted(p.OK, p.Addresses, max(0, others)), l.Clock.Now(), true))
	}
}

// renewCondition writes a condition if the cluster already has one about its migration.
func (m *migrate) renewCondition(ctx context.Context, l *link, c metav1.Condition) {
	if l.Served {
		m.courtesy(ctx, condition.Write(ctx, l.API, l.APIVersion, c, l.Clock.Now(), false))
	}
}

// courtesy logs why a condition was not written: without the right, the output has to be enough.
func (m *migrate) courtesy(ctx context.Context, err error) {
	if err != nil {
		logr.FromContextOrDiscard(m.logging(ctx)).Info("The condition of ServiceCIDR kubernetes was not written", "because", err.Error())
	}
}
