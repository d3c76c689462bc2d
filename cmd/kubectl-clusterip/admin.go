package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/kube"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// admin is what the commands share that look at a cluster as it runs.
type admin struct {
	streams
	kube *kubeFlags
}

// session is an open connection to an API server.
type session struct {
	client.WithWatch
	config    *rest.Config
	discovery discovery.DiscoveryInterface
	// progress takes notes about what takes long.
	progress io.Writer
	// policies: the API server serves ServiceCIDRPolicies.
	policies bool
	// namespace is that of the kubeconfig's context.
	namespace string
	// clock is the API server's.
	clock *serverClock
	// opened is what view has read.
	opened *view.View
}

// open connects to the cluster that the flags name.
func (a *admin) open() (*session, error) {
	config, err := a.kube.rest()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	now := &serverClock{}
	config.Wrap(now.observe)
	config.QPS = -1
	config.WarningHandler = rest.NewWarningWriter(a.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " kubectl-clusterip"
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	gv, err := kube.Discover(d)
	if err != nil {
		return nil, fmt.Errorf("asking the API server at %s what it serves: %w", config.Host, err)
	}
	s := &session{config: config, discovery: d, clock: now, progress: a.ErrOut}
	if s.namespace, err = a.kube.namespace(); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if s.policies, err = kube.DiscoverPolicies(d); err != nil {
		return nil, err
	}
	scheme, err := kube.NewScheme(gv)
	if err = errors.Join(err, appsv1.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	s.WithWatch, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	return s, err
}

// cluster is the UID of the cluster, by which files know it.
func (s *session) cluster(ctx context.Context) (types.UID, error) {
	return migration.Sources{API: s}.Cluster(ctx)
}

// list lists objects, and says which permission is missing.
func (s *session) list(ctx context.Context, into client.ObjectList, what string, options ...client.ListOption) error {
	if err := s.List(ctx, into, options...); err != nil {
		return fmt.Errorf("listing %s: %w", what, permission(err))
	}
	return nil
}

// rangesAndPolicies lists all ServiceCIDRs, and all policies where the API server serves them.
func (s *session) rangesAndPolicies(ctx context.Context) (ranges *networkingv1.ServiceCIDRList, policies *v1alpha1.ServiceCIDRPolicyList, err error) {
	ranges, policies = &networkingv1.ServiceCIDRList{}, &v1alpha1.ServiceCIDRPolicyList{}
	if v := s.opened; v != nil { // has them, and goes on when the API server is away
		err = v.List(ctx, ranges)
		if err == nil && s.policies {
			err = v.List(ctx, policies)
		}
		return ranges, policies, err
	}
	err = s.list(ctx, ranges, "ServiceCIDRs")
	if err == nil && s.policies {
		err = s.list(ctx, policies, "ServiceCIDRPolicies")
	}
	return ranges, policies, err
}

// permission adds to a refusal what an admin can do about it.
func permission(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; the ClusterRole clusterip-operator-view has what this command reads, and is part of view", err)
	}
	return err
}

// formats are those of every command that prints a list.
var formats = []string{"", "wide", "json", "yaml", "name"}

// output is how a list is printed.
type output struct {
	format    string
	noHeaders bool
}

func (o *output) validate() error {
	if !slices.Contains(formats, o.format) {
		return fmt.Errorf("--output %q is none of wide, json, yaml, name", o.format)
	}
	return nil
}

// listing is a list that can be printed in every format: a table, a value for programs, or names.
type listing struct {
	table metav1.Table
	value any
	names []string
}

// print writes a listing.
func (o *output) print(w io.Writer, l listing) error {
	switch o.format {
	case "json", "yaml":
		return batch.Encode(w, l.value, o.format)
	case "name":
		_, err := io.WriteString(w, strings.Join(append(l.names, ""), "\n"))
		return err
	}
	if len(l.table.Rows) == 0 {
		_, err := io.WriteString(w, "No resources found\n")
		return err
	}
	for _, row := range l.table.Rows {
		for i, cell := range row.Cells {
			row.Cells[i] = plain.Lines(fmt.Sprint(cell))
		}
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: o.format == "wide", NoHeaders: o.noHeaders}).PrintObj(&l.table, w)
}

// columns makes the head of a table. Names that begin with + are shown with -o wide only.
func columns(names ...string) (out []metav1.TableColumnDefinition) {
	for _, name := range names {
		wide := strings.HasPrefix(name, "+")
		c := metav1.TableColumnDefinition{Name: strings.TrimPrefix(name, "+"), Type: "string"}
		if wide {
			c.Priority = 1
		}
		out = append(out, c)
	}
	return out
}
