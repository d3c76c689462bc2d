package migration

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"

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
	// Err tells why it could not be asked.
	Err error
}

// DualWrites reports whether it may keep the bitmaps in step, and so write them; the answer of one that could not be asked
// is yes.
func (a APIServer) DualWrites() bool {
	minor, ok := minorOf(a.Version)
	return a.Err != nil || !ok || minor < firstWithoutDualWrite
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
		v, err := askVersion(ctx, config, address)
		out = append(out, APIServer{Address: address, Version: v, Err: err})
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

func askVersion(ctx context.Context, config *rest.Config, address string) (*version.Info, error) {
	c := rest.CopyConfig(config)
	c.Host = "https://" + address
	if !c.Insecure {
		c.ServerName = serverName
	}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	text, err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	v := &version.Info{}
	return v, json.Unmarshal(text, v)
}
