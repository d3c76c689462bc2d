package agentwatch_test

import (
	"context"
	"net/netip"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/watch"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// nodeName is the Node that agents believe to run on.
const nodeName = "here"

// agent adds up what it takes from a Source, as a node agent does. It is safe for concurrent use.
type agent struct {
	*watch.Source
	ended chan error

	mu    sync.Mutex
	state model.State
	// gone are the Services and addresses that were told gone, in order.
	gone []string
	// woken counts the Takes.
	woken int
}

// startAgent starts an agent that ends with the calling node.
func startAgent(config *rest.Config, o watch.Options) *agent {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client := suite.Must(kubernetes.NewForConfig(config))

	a := &agent{ended: make(chan error, 1)}
	a.state.Services, a.state.Allocations = map[model.ServiceName]model.Service{}, map[netip.Addr]model.Allocation{}
	o.NodeName, o.Logger = nodeName, GinkgoLogr
	a.Source = suite.Must(watch.New(client, o))

	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { a.ended <- a.Run(ctx) })
	running.Go(func() { a.follow(ctx) })
	DeferCleanup(func() {
		stop()
		running.Wait()
	})
	return a
}

func (a *agent) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.Wake():
			a.add(a.Take())
		}
	}
}

func (a *agent) add(c model.Changes) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.woken++
	for name, s := range c.Services {
		delete(a.state.Services, name)
		if s != nil {
			a.state.Services[name] = *s
		} else {
			a.gone = append(a.gone, name.Name)
		}
	}
	for addr, allocation := range c.Allocations {
		delete(a.state.Allocations, addr)
		if allocation != nil {
			a.state.Allocations[addr] = *allocation
		} else {
			a.gone = append(a.gone, addr.String())
		}
	}
	if c.Ranges != nil {
		a.state.Ranges = *c.Ranges
	}
	if c.Node != nil {
		a.state.Node = *c.Node
	}
}

// locked reads something of an agent that goes on.
func locked[T any](a *agent, read func() T) T {
	a.mu.Lock()
	defer a.mu.Unlock()
	return read()
}

// service returns a Service as something to poll; nil when it is not served.
func (a *agent) service(name string) func() *model.Service {
	return func() *model.Service {
		return locked(a, func() *model.Service {
			if s, ok := a.state.Services[model.ServiceName{Namespace: namespace, Name: name}]; ok {
				return &s
			}
			return nil
		})
	}
}

// endpoints returns the addresses and ports of a Service's endpoints as something to poll.
func (a *agent) endpoints(name string) func() []string {
	return func() (out []string) {
		if s := a.service(name)(); s != nil {
			for _, e := range s.Endpoints {
				out = append(out, e.Addr.String())
			}
		}
		return out
	}
}

// allocation returns what is known of an address, as something to poll; the zero value for nothing.
func (a *agent) allocation(addr string) func() model.Allocation {
	return func() model.Allocation {
		return locked(a, func() model.Allocation { return a.state.Allocations[netip.MustParseAddr(addr)] })
	}
}

// ranges returns the ranges, node the Node, and wakes how often there was something to take.
func (a *agent) ranges() (out []string) {
	for _, r := range locked(a, func() []netip.Prefix { return a.state.Ranges }) {
		out = append(out, r.String())
	}
	return out
}

func (a *agent) node() model.Node { return locked(a, func() model.Node { return a.state.Node }) }
func (a *agent) wakes() int       { return locked(a, func() int { return a.woken }) }

// told returns what was told gone since it was asked last.
func (a *agent) told() []string {
	return locked(a, func() []string {
		defer func() { a.gone = nil }()
		return a.gone
	})
}
