package hostile_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// mark is the label of all objects of tenants.
const mark = "hostile"

// perSlice is how many endpoints an EndpointSlice may have.
const perSlice = 1000

// tenant is a user who may write Services and EndpointSlices in one namespace, no more. What its
// methods cannot do is returned, for they run beside the goroutine of the spec.
type tenant struct{ env *fixture }

// create makes a Service, with its load balancer IPs.
func (t tenant) create(ctx context.Context, name string, options ...framework.ServiceOption) (*corev1.Service, error) {
	service := t.env.NewService(name, append(options, framework.WithLabel(mark, "true"))...)
	created, err := t.env.Services().Create(ctx, service, metav1.CreateOptions{})
	if err == nil && len(service.Status.LoadBalancer.Ingress) > 0 {
		created.Status = service.Status
		created, err = t.env.Services().UpdateStatus(ctx, created, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("creating the Service %s: %w", name, err)
	}
	t.env.objects.Add(int64(created.Size()))
	return created, nil
}

// update changes a Service.
func (t tenant) update(ctx context.Context, name string, change func(*corev1.Service)) error {
	service, err := t.env.Services().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	change(service)
	_, err = t.env.Services().Update(ctx, service, metav1.UpdateOptions{})
	return err
}

// endpoints makes the n addresses from the part-th thousand on the endpoints of an EndpointSlice of
// a Service, in each family. No host has these addresses: a connection that is led there is lost.
func (t tenant) endpoints(ctx context.Context, service *corev1.Service, part, n int) error {
	for _, f := range network.Families {
		slice := t.env.NewSlice(service, f)
		slice.Name = strings.ToLower(fmt.Sprintf("%s-%d", slice.Name, part))
		slice.Labels[mark] = "true"
		for i := range n {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{nowhere(f, part*perSlice+i).String()}})
		}
		if err := t.write(ctx, slice); err != nil {
			return fmt.Errorf("writing the EndpointSlice %s: %w", slice.Name, err)
		}
	}
	return nil
}

func (t tenant) write(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	_, err := t.env.Slices().Update(ctx, slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		t.env.objects.Add(int64(slice.Size()))
		_, err = t.env.Slices().Create(ctx, slice, metav1.CreateOptions{})
	}
	return err
}

// nowhere is the i-th of the addresses of pods that no host has.
func nowhere(f model.Family, i int) netip.Addr {
	if f == model.IPv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:180:0:64::%x", 1+i))
	}
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], 10<<24|180<<16|64<<8+uint32(1+i))
	return netip.AddrFrom4(address)
}

// leave deletes all that tenants have.
func (t tenant) leave(ctx context.Context) {
	GinkgoHelper()
	own := metav1.ListOptions{LabelSelector: mark}
	services, err := t.env.Services().List(ctx, own)
	Expect(err).NotTo(HaveOccurred())
	for _, service := range services.Items {
		Expect(t.env.Services().Delete(ctx, service.Name, metav1.DeleteOptions{})).To(Succeed())
	}
	Expect(t.env.Slices().DeleteCollection(ctx, metav1.DeleteOptions{}, own)).To(Succeed())
}
