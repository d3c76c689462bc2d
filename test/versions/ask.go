package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration/etcdstore"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// server is a running API server of a version, with the flags that package framework gives to that.
type server struct {
	*framework.ControlPlane
	version framework.Version
	metrics framework.Metrics
}

// questions are the rows of the table of differences.
var questions = []struct {
	name string
	ask  func(context.Context, server) (string, error)
}{
	{"ServiceCIDR and IPAddress are served as", served("networking.k8s.io", "servicecidrs", "ipaddresses")},
	{"they are stored as", stored},
	{"ValidatingAdmissionPolicy is served as", served("admissionregistration.k8s.io", "validatingadmissionpolicies")},
	{"feature gate `MultiCIDRServiceAllocator`", gate("MultiCIDRServiceAllocator")},
	{"feature gate `DisableAllocatorDualWrite`", gate("DisableAllocatorDualWrite")},
	{"feature gate `PreferSameTrafficDistribution`", gate("PreferSameTrafficDistribution")},
	{"a ClusterIP is written into", records},
	{"`kubectl get servicecidr` prints", columns("servicecidrs")},
	{"`kubectl get ipaddress` prints", columns("ipaddresses")},
}

// differences is the table of what running API servers answer.
func differences(ctx context.Context, versions []framework.Version) (report.Table, error) {
	t := report.Table{Header: []string{"API server"}}
	for _, q := range questions {
		t.Add(q.name)
	}
	for _, v := range versions {
		t.Header = append(t.Header, v.Name)
		answers, err := ask(ctx, v)
		if err != nil {
			return t, fmt.Errorf("asking an API server %s: %w", v.Name, err)
		}
		for i, answer := range answers {
			t.Rows[i] = append(t.Rows[i], answer)
		}
	}
	return t, nil
}

func ask(ctx context.Context, v framework.Version) (answers []string, err error) {
	plane, err := framework.Start(ctx, framework.Options{Version: v})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	info, err := plane.Client().Discovery().ServerVersion()
	if err != nil {
		return nil, err
	}
	if info.GitVersion != "v"+v.Name {
		return nil, fmt.Errorf("it says that it is %s", info.GitVersion)
	}
	text, err := plane.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	s := server{ControlPlane: plane, version: v}
	if s.metrics, err = framework.ParseMetrics(string(text)); err != nil {
		return nil, err
	}
	for _, q := range questions {
		answer, err := q.ask(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// served asks discovery for the versions of a group that have all of some resources.
func served(group string, resources ...string) func(context.Context, server) (string, error) {
	return func(_ context.Context, s server) (string, error) {
		_, lists, err := s.Client().Discovery().ServerGroupsAndResources()
		if err != nil {
			return "", err
		}
		var versions []string
		for _, list := range lists {
			there := func(name string) bool {
				return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
			}
			if version, ok := strings.CutPrefix(list.GroupVersion, group+"/"); ok && !slices.ContainsFunc(resources, func(name string) bool { return !there(name) }) {
				versions = append(versions, version)
			}
		}
		if len(versions) == 0 {
			return "not served", nil
		}
		return strings.Join(versions, ", "), nil
	}
}

// stored creates a ServiceCIDR and looks in etcd in what version it is there.
func stored(ctx context.Context, s server) (string, error) {
	const name = "probe"
	if _, err := s.Networking().ServiceCIDRs().Create(ctx, framework.NewServiceCIDR(name, "10.200.0.0/24"), metav1.CreateOptions{}); err != nil {
		return "", err
	}
	value, err := fromEtcd(ctx, s.Etcd, "servicecidrs/"+name)
	return path.Base(value.APIVersion), err
}

// gate asks the metrics for a feature gate's state, and whether the program takes the opposite.
func gate(name string) func(context.Context, server) (string, error) {
	return func(ctx context.Context, s server) (string, error) {
		value, found := s.metrics.Value("kubernetes_feature_enabled", "name", name)
		programs, err := s.version.Assets("kube-apiserver")
		if err != nil {
			return "", err
		}
		on := value == 1
		out, err := exec.CommandContext(ctx, filepath.Join(programs, "kube-apiserver"), fmt.Sprintf("--feature-gates=%s=%t", name, !on), "--version").CombinedOutput()
		return state(found, on, string(out), err)
	}
}

// state puts a feature gate into words: what it is, and what the program said to the opposite.
func state(found, on bool, said string, refused error) (string, error) {
	word, opposite := "on", "off"
	if !on {
		word, opposite = opposite, word
	}
	switch {
	case !found && refused != nil && strings.Contains(said, "unrecognized feature gate"):
		return "unknown", nil
	case found && refused == nil:
		return word + ", may be switched " + opposite, nil
	case found && strings.Contains(said, "is locked to"):
		return word + ", locked", nil
	default:
		return "", fmt.Errorf("in the metrics: %t; told the opposite it said: %s", found, said)
	}
}

// records creates a Service and looks where its ClusterIP is written down.
func records(ctx context.Context, s server) (string, error) {
	service, err := s.Client().CoreV1().Services("default").Create(ctx, framework.NewService("default", "probe"), metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	var places []string
	switch _, err = s.Networking().IPAddresses().Get(ctx, service.Spec.ClusterIP, metav1.GetOptions{}); {
	case err == nil:
		places = append(places, "IPAddress")
	case !apierrors.IsNotFound(err):
		return "", err
	}
	has, err := inBitmap(ctx, s.Etcd, service.Spec.ClusterIP)
	if has {
		places = append(places, "bitmap")
	}
	return strings.Join(places, " and "), err
}

func inBitmap(ctx context.Context, etcd *framework.Etcd, address string) (bool, error) {
	value, err := fromEtcd(ctx, etcd, migration.KeyPrimary)
	allocation, ok := value.Object.(*corev1.RangeAllocation)
	if err != nil || !ok || len(allocation.Data) == 0 { // API servers that do not use it leave it empty
		return false, err
	}
	bits, err := bitmap.Parse(allocation.Range, allocation.Data)
	if err != nil {
		return false, err
	}
	a, err := netip.ParseAddr(address)
	return err == nil && bits.Contains(a), err
}

func fromEtcd(ctx context.Context, etcd *framework.Etcd, key string) (migration.Value, error) {
	store, err := etcdstore.Open(ctx, etcdstore.Config{Endpoints: []string{etcd.URL()}})
	if err != nil {
		return migration.Value{}, err
	}
	value, err := store.Get(ctx, key)
	return value, errors.Join(err, value.Err, store.Close())
}

// columns asks for a resource as a table, as kubectl does, and returns the heads of its columns.
func columns(resource string) func(context.Context, server) (string, error) {
	return func(ctx context.Context, s server) (string, error) {
		raw, err := s.Client().Discovery().RESTClient().Get().AbsPath("/apis/networking.k8s.io", s.version.NetworkingVersion, resource).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
		if err != nil {
			return "", err
		}
		var table metav1.Table
		if err := json.Unmarshal(raw, &table); err != nil {
			return "", err
		}
		var names []string
		for _, c := range table.ColumnDefinitions {
			if c.Priority == 0 { // others come with -o wide
				names = append(names, strings.ToUpper(c.Name))
			}
		}
		return strings.Join(names, " "), nil
	}
}
