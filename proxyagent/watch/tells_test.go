package watch

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// tellingNodes are those of so many nodes that tell of a Service, each by itself.
func tellingNodes(nodes int, known *slicesOf, n model.ServiceName) (telling []string) {
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		if known.ahead(name, n) < tellers {
			telling = append(telling, name)
		}
	}
	return telling
}

// TestFewNodesTell of many, different ones for each Service, and the next ones when those are down.
func TestFewNodesTell(t *testing.T) {
	const nodes, services = 200, 50
	known := &slicesOf{of: map[model.ServiceName][]*slice{}, ready: map[word]int{}}
	slice := func(node string, ready bool) *slice {
		out, _ := convertSlice(newSlice(node, "web", at("10.0.0.1", "10.0.0.2"), onNode(node), func(s *discoveryv1.EndpointSlice) {
			for i := range s.Endpoints {
				s.Endpoints[i].Conditions.Ready = &ready
			}
		}))
		return out
	}
	service := func(i int) model.ServiceName { return model.ServiceName{Namespace: "ns", Name: fmt.Sprint("web-", i)} }
	if got := len(tellingNodes(nodes, known, service(0))); got != nodes {
		t.Errorf("%d nodes tell when none is known to have endpoints, want all", got)
	}
	for i := range nodes {
		known.replace(nil, slice(fmt.Sprint("node-", i), true))
	}
	told := map[string]int{}
	for i := range services {
		telling := tellingNodes(nodes, known, service(i))
		if len(telling) != tellers {
			t.Errorf("%d nodes tell of %s, want %d", len(telling), service(i), tellers)
		}
		for _, node := range telling {
			told[node]++
		}
	}
	if len(told) < services || slices.Max(slices.Collect(maps.Values(told))) > 10 {
		t.Errorf("%d nodes tell of %d Services, one of too many: %v", len(told), services, told)
	}

	first := tellingNodes(nodes, known, service(0))
	for _, node := range first {
		known.replace(slice(node, true), slice(node, false))
	}
	next := tellingNodes(nodes, known, service(0))
	if alive := slices.DeleteFunc(slices.Clone(next), func(node string) bool { return slices.Contains(first, node) }); len(alive) != tellers {
		t.Errorf("%v tell when the endpoints on %v are not ready, want %d others", next, first, tellers)
	}
	for i := range nodes {
		node := fmt.Sprint("node-", i)
		known.replace(slice(node, !slices.Contains(first, node)), nil)
	}
	if len(known.ready) > 0 {
		t.Errorf("without slices there are still %v", known.ready)
	}
}
