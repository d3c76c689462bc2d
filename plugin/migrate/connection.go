package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration/condition"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration/etcdstore"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// Connection says where a cluster is read from and written to.
type Connection struct {
	session *cli.Session
	etcd    etcdstore.Config
	offline bool
	ranges  string
}

// NewConnection returns a connection by the flags of a session. Those that lead to etcd come by
// addEtcdFlags.
func NewConnection(a *cli.Session) Connection { return Connection{session: a} }

// HasEtcd reports whether the flags lead to etcd.
func (c *Connection) HasEtcd() bool { return len(c.etcd.Endpoints) > 0 }

func (c *Connection) addFlags(f *pflag.FlagSet) {
	c.AddEtcdFlags(f)
	f.BoolVar(&c.offline, "offline", false, "do not ask an API server: read everything from etcd")
	f.StringVar(&c.ranges, "service-cluster-ip-range", "", "what kube-apiserver is started with, primary range first; needed where neither bitmaps nor ServiceCIDR \"kubernetes\" tell it")
}

// AddEtcdFlags adds those that lead to the bitmaps.
func (c *Connection) AddEtcdFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&c.etcd.Endpoints, "etcd-servers", nil, "URLs of etcd, as kube-apiserver has them; without it the bitmaps are not looked at")
	f.StringVar(&c.etcd.CAFile, "etcd-cafile", "", "file of the CA that has signed etcd's certificate")
	f.StringVar(&c.etcd.CertFile, "etcd-certfile", "", "file of the client certificate for etcd")
	f.StringVar(&c.etcd.KeyFile, "etcd-keyfile", "", "file of the client certificate's key")
	f.StringVar(&c.etcd.Prefix, "etcd-prefix", "/registry", "prefix of all keys of the API server")
}

// Link is an open connection to one cluster.
type Link struct {
	migration.Sources
	// config is how to reach the API server, nil when offline.
	config *rest.Config
	// Close ends it.
	Close func()
}

// Open connects to what the flags name, and makes sure that it is one cluster.
func (c *Connection) Open(ctx context.Context, needs ...need) (*Link, error) {
	if err := c.validate(needs); err != nil {
		return nil, err
	}
	now := &cli.ServerClock{}
	l := &Link{Sources: migration.Sources{Clock: now}, Close: func() {}}
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
		l.Store, l.Close = store, func() { _ = store.Close() }
	}
	if l.Store != nil && l.API != nil { // who keeps the bitmaps that are in there; without the right to ask, the version of the one that answers has to do
		if l.Servers, err = migration.APIServers(ctx, l.config); err != nil && !apierrors.IsForbidden(err) {
			l.Close()
			return nil, err
		}
	}
	if err := l.Check(ctx); err != nil {
		l.Close()
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

func (c *Connection) validate(needs []need) error {
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

func (c *Connection) openAPI(l *Link, now *cli.ServerClock) error {
	config, err := c.session.Config(now)
	if err != nil {
		return err
	}
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
func (l *Link) serves() error {
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

// tellCondition writes into the cluster how far its migration is.
func (m *command) tellCondition(ctx context.Context, l *Link, p migration.Plan) {
	if p.Snapshot.Allocator == migration.AllocatorBitmap && l.Served {
		others := len(p.StopFlip()) - (p.Addresses - p.OK)
		m.courtesy(ctx, condition.Write(ctx, l.API, l.APIVersion, condition.Counted(p.OK, p.Addresses, max(0, others)), l.Clock.Now(), true))
	}
}

// renewCondition writes a condition if the cluster already has one about its migration.
func (m *command) renewCondition(ctx context.Context, l *Link, c metav1.Condition) {
	if l.Served {
		m.courtesy(ctx, condition.Write(ctx, l.API, l.APIVersion, c, l.Clock.Now(), false))
	}
}

// courtesy logs why a condition was not written: without the right, the output has to be enough.
func (m *command) courtesy(ctx context.Context, err error) {
	if err != nil {
		logr.FromContextOrDiscard(m.Logging(ctx)).Info("The condition of ServiceCIDR kubernetes was not written", "because", err.Error())
	}
}
