package population

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// OpenPort is where the server listens; on ShutPort no server does.
const (
	OpenPort = 9000
	ShutPort = 9001
)

const (
	// perSlice is how many endpoints the EndpointSlice controller puts into one slice.
	perSlice = 100
	// nodes is how many nodes the endpoints are spread over.
	nodes = 100
)

// State is what the first slice of a Service says at the moment.
type State int

// States of a Service.
const (
	// Open has all endpoints on OpenPort, Shut on ShutPort; Fewer one less, More one more, One just
	// one.
	Open State = iota
	Shut
	Fewer
	More
	One
)

// spare is the number of the endpoint that More adds, behind those of all Services.
const spare = 500_000

// Range returns the addresses of all endpoints.
func Range(f model.Family) netip.Prefix {
	if f == model.IPv6 {
		return netip.MustParsePrefix("fd00:182::/48")
	}
	return netip.MustParsePrefix("10.184.0.0/13")
}

// Endpoint returns the i-th of these addresses, from 0.
func Endpoint(f model.Family, i int) netip.Addr { return nth(Range(f), i+1) }

// nth returns the n-th address of a prefix; that of the network is number 0.
func nth(p netip.Prefix, n int) netip.Addr {
	a := p.Addr().AsSlice()
	low := a[len(a)-4:]
	binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+uint32(n))
	addr, _ := netip.AddrFromSlice(a)
	return addr
}

// slices are what the API server gets for one Service whose endpoints are addresses from first on.
func slices(namespace, service string, f model.Family, first, endpoints int) (all []*discoveryv1.EndpointSlice) {
	for start := 0; start < endpoints; start += perSlice {
		name := fmt.Sprintf("%s-%d", service, start/perSlice)
		all = append(all, slice(namespace, service, name, f, first+start, min(perSlice, endpoints-start), Open))
	}
	return all
}

func slice(namespace, service, name string, f model.Family, first, endpoints int, s State) *discoveryv1.EndpointSlice {
	port := int32(OpenPort)
	switch s {
	case Shut:
		port = ShutPort
	case Fewer:
		endpoints--
	case One:
		endpoints = 1
	}
	out := empty(namespace, service, name, f, port)
	for i := range endpoints {
		out.Endpoints = append(out.Endpoints, endpoint(f, first+i))
	}
	if s == More {
		out.Endpoints = append(out.Endpoints, endpoint(f, spare))
	}
	return out
}

func endpoint(f model.Family, i int) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  []string{Endpoint(f, i).String()},
		Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		NodeName:   new(fmt.Sprintf("node-%d", i%nodes)),
	}
}

func empty(namespace, service, name string, f model.Family, port int32) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "bench"},
		},
		AddressType: discoveryv1.AddressType(f.String()),
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: &port}},
	}
}
