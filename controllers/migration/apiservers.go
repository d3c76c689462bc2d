package migration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// Minor versions.
const (
	firstWithoutDualWrite = 34 // does not keep the bitmap in step by default (DisableAllocatorDualWrite)
	firstLocked           = 35 // that gate is locked
)

// APIServer is one of the cluster's API servers.
type APIServer struct {
	Address   string // host and port
	Version   *version.Info
	BitmapOff *bool // its feature gate DisableAllocatorDualWrite, nil where it does not say
	Err       error // why it could not be asked
}

// DualWrites reports whether it may keep bitmaps in step, and so write them: yes if unknown.
func (a APIServer) DualWrites() bool {
	minor, ok := upstream.Minor(a.Version)
	never := minor >= firstLocked || minor >= firstWithoutDualWrite && a.BitmapOff != nil && *a.BitmapOff
	return a.Err != nil || !ok || !never
}

// KeepsBitmaps reports whether it keeps the bitmaps in step for certain; an unclear answer is a no.
func (a APIServer) KeepsBitmaps() bool {
	minor, ok := upstream.Minor(a.Version)
	return a.Err == nil && ok && (minor < firstWithoutDualWrite || a.BitmapOff != nil && !*a.BitmapOff)
}

// APIServers asks the endpoints of default/kubernetes, which API servers keep, for their versions.
func APIServers(ctx context.Context, config *rest.Config) (servers []APIServer, err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	endpoints, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return nil, fmt.Errorf("listing the endpoints of Service default/kubernetes: %w", err)
	}
	for _, address := range addresses(endpoints.Items) {
		servers = append(servers, askServer(ctx, config, address))
	}
	return servers, nil
}

// addresses are host and port of all endpoints, each once.
func addresses(all []discoveryv1.EndpointSlice) (out []string) {
	for _, s := range all {
		for _, port := range s.Ports {
			for _, e := range s.Endpoints {
				for _, host := range e.Addresses {
					if port.Port != nil { // nil is for all ports: nothing that one could ask
						out = append(out, net.JoinHostPort(host, strconv.Itoa(int(*port.Port))))
					}
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// askTimeout bounds the answer of one API server: the host of one that is still listed may be gone.
const askTimeout = 10 * time.Second

// askServer asks for the version and, where that leaves it open, whether the gate is on.
func askServer(ctx context.Context, config *rest.Config, address string) (server APIServer) {
	c := rest.CopyConfig(config)
	c.Host, c.Timeout = "https://"+address, askTimeout
	if !c.Insecure {
		c.ServerName = "kubernetes.default.svc" // in the certificate of every API server, whatever its address
	}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return APIServer{Address: address, Err: err}
	}
	server.Address = address
	server.Version, server.Err = client.ServerVersionWithContext(ctx)
	if minor, ok := upstream.Minor(server.Version); ok && minor == firstWithoutDualWrite {
		metrics, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
		if found := gate.FindSubmatch(metrics); err == nil && found != nil {
			server.BitmapOff = new(string(found[1]) == "1")
		}
	}
	return server
}

// gate is what the metrics of an API server say of the feature gate.
var gate = regexp.MustCompile(`(?m)^kubernetes_feature_enabled\{name="DisableAllocatorDualWrite",[^}]*\} ([01])$`)

const (
	prefixMasterLeases = "masterleases/"  // where each API server renews a key with a lease, by its address, as long as it runs
	leaseLasts         = 15 * time.Second // how long such a key outlives an API server that was killed
)

// NoneAlive makes sure that no API server runs on this etcd. It waits for the leases of those that
// were killed, and returns an error that names those that go on.
func NoneAlive(ctx context.Context, store Store) error {
	for deadline := time.Now().Add(leaseLasts + 5*time.Second); ; {
		var alive []string
		_, err := store.List(ctx, prefixMasterLeases, 0, func(v Value) error { alive = append(alive, path.Base(v.Key)); return nil })
		switch {
		case err != nil:
			return fmt.Errorf("looking for API servers that run: %w", err)
		case len(alive) == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("an API server runs at %s, which renews its key below %s in etcd: stop it first, or leave out --offline", strings.Join(alive, " and "), prefixMasterLeases)
		}
		logr.FromContextOrDiscard(ctx).V(1).Info("Waiting for the leases of API servers to expire", "servers", alive)
		if err := batch.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// Plain makes sure that the API servers do not encrypt what they store: they could not read
// IPAddresses that are written past them. It looks at what exists in every cluster. That
// IPAddresses alone are to be encrypted shows nowhere before there are any.
func Plain(ctx context.Context, store Store) error {
	for _, prefix := range []string{prefixServices + "default/", prefixIPAddresses} {
		_, err := store.List(ctx, prefix, 0, func(v Value) error {
			if errors.Is(v.Err, ErrEncrypted) {
				return fmt.Errorf("%s: %w; the API servers could not read IPAddresses that are written plainly, unless their EncryptionConfiguration has an identity provider: "+
					"then say --plain, otherwise serve the API and use `migrate run`", v.Key, v.Err)
			}
			return errEnough
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}
