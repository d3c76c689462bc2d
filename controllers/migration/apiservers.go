package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// APIServer is one of the cluster's API servers.
type APIServer struct {
	// Address is host and port.
	Address string
	Version *version.Info
	// BitmapOff: it says that its feature gate DisableAllocatorDualWrite is on.
	BitmapOff bool
	// Err tells why it could not be asked.
	Err error
}

// firstLocked is the minor version in which the gate DisableAllocatorDualWrite is locked; in 1.34 it is on unless somebody
// switches it off.
const firstLocked = 35

// DualWrites reports whether it may keep the bitmaps in step, and so write them; the answer of one that could not be asked
// is yes.
func (a APIServer) DualWrites() bool {
	minor, ok := minorOf(a.Version)
	never := minor >= firstLocked || minor >= firstWithoutDualWrite && a.BitmapOff
	return a.Err != nil || !ok || !never
}

// APIServers asks every API server of the cluster for its version. They are the endpoints of Service default/kubernetes, which
// API servers keep themselves.
func APIServers(ctx context.Context, config *rest.Config) ([]APIServer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	slices, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return nil, fmt.Errorf("listing the endpoints of Service default/kubernetes: %w", err)
	}
	var out []APIServer
	for _, address := range addresses(slices.Items) {
		out = append(out, askServer(ctx, config, address))
	}
	return out, nil
}

// addresses are host and port of all endpoints, each once.
func addresses(slices []discoveryv1.EndpointSlice) (out []string) {
	seen := map[string]bool{}
	for _, s := range slices {
		for _, port := range s.Ports {
			if port.Port == nil {
				continue // all ports: nothing that one could ask
			}
			for _, e := range s.Endpoints {
				for _, host := range e.Addresses {
					a := net.JoinHostPort(host, strconv.Itoa(int(*port.Port)))
					if !seen[a] {
						out = append(out, a)
					}
					seen[a] = true
				}
			}
		}
	}
	return out
}

// serverName is in the certificate of every API server, whatever its address.
const serverName = "kubernetes.default.svc"

// askServer asks for the version and, where that leaves it open, whether the gate is on.
func askServer(ctx context.Context, config *rest.Config, address string) APIServer {
	server := APIServer{Address: address}
	c := rest.CopyConfig(config)
	c.Host = "https://" + address
	if !c.Insecure {
		c.ServerName = serverName
	}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		server.Err = err
		return server
	}
	get := func(path string) ([]byte, error) {
		return client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Raw()
	}
	text, err := get("/version")
	if err == nil {
		server.Version = &version.Info{}
		err = json.Unmarshal(text, server.Version)
	}
	server.Err = err
	if minor, ok := minorOf(server.Version); ok && minor == firstWithoutDualWrite {
		metrics, err := get("/metrics")
		server.BitmapOff = err == nil && gateOn.Match(metrics)
	}
	return server
}

// gateOn is what the metrics of an API server say of a feature gate that is on.
var gateOn = regexp.MustCompile(`(?m)^kubernetes_feature_enabled\{name="DisableAllocatorDualWrite",[^}]*\} 1$`)

// prefixMasterLeases is where each API server renews a key with a lease, by its address, as long as it runs.
const prefixMasterLeases = "masterleases/"

// leaseLasts is how long such a key outlives an API server that was killed.
const leaseLasts = 15 * time.Second

// NoneAlive makes sure that no API server runs on this etcd. It waits for the leases of those that were killed, and returns an error
// that names those which go on.
func NoneAlive(ctx context.Context, store Store) error {
	for deadline := time.Now().Add(leaseLasts + 5*time.Second); ; {
		alive, err := alive(ctx, store)
		switch {
		case err != nil:
			return fmt.Errorf("looking for API servers that run: %w", err)
		case len(alive) == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("an API server runs at %s, which renews its key below %s in etcd: stop it first, or leave out --offline", strings.Join(alive, " and "), prefixMasterLeases)
		}
		logr.FromContextOrDiscard(ctx).V(1).Info("Waiting for the leases of API servers to expire", "servers", alive)
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// alive are the addresses of the API servers that run, or did moments ago.
func alive(ctx context.Context, store Store) (out []string, err error) {
	_, err = store.List(ctx, prefixMasterLeases, 0, func(v Value) error {
		out = append(out, path.Base(v.Key))
		return nil
	})
	return out, err
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Plain makes sure that the API servers do not encrypt what they store: they could not read IPAddresses that are written past
// them. It looks at what exists in every cluster; that IPAddresses alone are to be encrypted, before there are any, shows nowhere.
func Plain(ctx context.Context, store Store) error {
	for _, prefix := range []string{prefixServices + "default/", prefixIPAddresses} {
		_, err := store.List(ctx, prefix, 0, func(v Value) error {
			if errors.Is(v.Err, ErrEncrypted) {
				return fmt.Errorf("%s: %w; the API servers could not read IPAddresses that are written plainly, unless their EncryptionConfiguration has an identity provider: "+
					"then say --plain, otherwise serve the API and use `migrate run`", v.Key, v.Err)
			}
			return errSeen
		})
		if err != nil && !errors.Is(err, errSeen) {
			return err
		}
	}
	return nil
}

// errSeen ends a list after its first key.
var errSeen = errors.New("seen")
