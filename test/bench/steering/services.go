package steering

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// helpers are the workers of what is not measured.
const helpers = 16

func serviceName(i int) string { return fmt.Sprintf("created-%06d", i) }

// create returns a function that creates the i-th Service; options may be nil.
func (e *environment) create(options func(i int) []framework.ServiceOption) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		if options == nil {
			return e.CreateService(ctx, serviceName(i))
		}
		return e.CreateService(ctx, serviceName(i), options(i)...)
	}
}

func (e *environment) remove(ctx context.Context, i int) error {
	return e.DeleteService(ctx, serviceName(i))
}

// label changes something that is none of our business.
func (e *environment) label(ctx context.Context, i int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"looked-at":"%s"}}}`, metav1.Now().Format("150405.000000"))
	_, err := e.Client.CoreV1().Services(cluster.Namespace).Patch(ctx, serviceName(i), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("labelling Service %s: %w", serviceName(i), err)
	}
	return nil
}

// createAll and removeAll do it for n Services, as what comes before and after a measurement.
func (e *environment) createAll(n int, options func(i int) []framework.ServiceOption) func(context.Context) error {
	return e.all(n, e.create(options))
}

func (e *environment) removeAll(n int) func(context.Context) error { return e.all(n, e.remove) }

func (*environment) all(n int, one func(context.Context, int) error) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := load.Load{Workers: helpers, Count: n}.Run(ctx, one)
		return err
	}
}

// families asks for addresses of so many families.
func families(n int) func(int) []framework.ServiceOption {
	if n == 1 {
		return nil
	}
	return func(int) []framework.ServiceOption { return []framework.ServiceOption{framework.RequireDualStack()} }
}

// passing adds to options the label with which Services pass our webhooks, unless it is empty.
func passing(label string, options func(int) []framework.ServiceOption) func(int) []framework.ServiceOption {
	if label == "" {
		return options
	}
	return func(i int) (all []framework.ServiceOption) {
		if options != nil {
			all = options(i)
		}
		return append(all, framework.WithLabel(passingLabel, label))
	}
}

// labelled selects Services for a policy.
func labelled(value string) func(int) []framework.ServiceOption {
	return func(int) []framework.ServiceOption {
		return []framework.ServiceOption{framework.WithLabel(selectingLabel, value)}
	}
}

// chosen asks for an address that no other Service has.
func chosen(i int) []framework.ServiceOption {
	return []framework.ServiceOption{framework.WithClusterIPs(chosenAddress(i))}
}

// chosenAddress lies far behind the copies, and is never the last of a /24, whatever the prefix.
func chosenAddress(i int) string { return fmt.Sprintf("10.111.%d.%d", 200+i/200, 10+i%200) }

// loadOf is a turn of so many clients.
func (o Options) loadOf(clients int) load.Load {
	if clients == 1 {
		return load.Load{Workers: 1, Count: o.Single}
	}
	return load.Load{Workers: clients, Count: o.Many}
}
