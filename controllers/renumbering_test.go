package controllers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/renumber"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// renumbering takes one Service from addresses to new ones by the command's own mover, under an
// admin's name, and can stop between any two of its writes.
type renumbering struct {
	service  string
	from, to []string
	uid      types.UID // of the Service
	held     []renumber.Held
}

// The steps of a mover, by what it writes.
const (
	holding   = iota + 1 // the old IPAddresses get a finalizer
	leaving              // the Service becomes an ExternalName, with a proof of what it was
	releasing            // former addresses that it gets back are let go of
	entering             // the Service gets the new addresses
	keeping              // the old IPAddresses become additional ones of the Service
)

// errStopped ends a mover before a step, as if the command had been killed.
var errStopped = errors.New("stopped")

// renumbered creates a Service with an address of each family that is to be renumbered.
func renumbered(ctx context.Context, name string, from, to []string, options ...framework.ServiceOption) *renumbering {
	GinkgoHelper()
	var s *corev1.Service
	Eventually(func() error { // the API server has to know the ServiceCIDR
		s = dual(name, append(options, framework.WithClusterIPs(from...))...)
		return admin.Create(ctx, s)
	}).Should(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, dual(name)))).To(Succeed()) })
	return &renumbering{service: name, from: from, to: to, uid: s.UID}
}

// back is the way back.
func (r *renumbering) back() *renumbering {
	return &renumbering{service: r.service, from: r.to, to: r.from, uid: r.uid}
}

// do goes as far as the end of a step, from wherever the Service is.
func (r *renumbering) do(ctx context.Context, last int) {
	GinkgoHelper()
	item := renumber.Item{Namespace: namespace, Name: r.service, UID: r.uid, Type: corev1.ServiceTypeClusterIP, Old: parse(r.from), New: parse(r.to)}
	var err error
	r.held, err = r.mover(last).Move(ctx, item)
	if last < keeping {
		Expect(err).To(MatchError(errStopped))
	} else {
		Expect(err).NotTo(HaveOccurred())
	}
}

// end gives the old addresses up.
func (r *renumbering) end(ctx context.Context) {
	GinkgoHelper()
	Expect(renumber.Drain{}.Wait(ctx, r.mover(keeping), batch.Pace{Workers: 1, Progress: silent{}}, r.held)).To(Equal(len(r.from)))
}

func (r *renumbering) mover(last int) renumber.Mover {
	GinkgoHelper()
	api := suite.Must(client.NewWithWatch(environment.Config, client.Options{Scheme: admin.Scheme()}))
	write := func(o client.Object, request func() error) error {
		if r.step(o) > last {
			return errStopped
		}
		return request()
	}
	return renumber.Mover{Keep: renumber.KeepAgent, Clock: clock.RealClock{}, Client: interceptor.NewClient(api, interceptor.Funcs{
		Update: func(ctx context.Context, api client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return write(o, func() error { return api.Update(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, api client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			return write(o, func() error { return api.Patch(ctx, o, patch, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, api client.Client, name string, o client.Object, options ...client.SubResourceUpdateOption) error {
			return write(o, func() error { return api.SubResource(name).Update(ctx, o, options...) })
		},
	})}
}

// step is the one that a write belongs to.
func (r *renumbering) step(written client.Object) int {
	ip, is := written.(*networkingv1.IPAddress)
	switch {
	case !is && slices.Equal(written.(*corev1.Service).Spec.ClusterIPs, r.to):
		return entering
	case !is:
		return leaving
	case !slices.Contains(ip.Finalizers, v1alpha1.FinalizerFormer):
		return releasing
	case ip.Labels[networkingv1.LabelManagedBy] == v1alpha1.ManagedByOperator:
		return keeping
	}
	return holding
}

func parse(texts []string) (out []netip.Addr) {
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

// silent is a batch.Progress that tells nothing.
type silent struct{}

func (silent) Begin(string, int) {}
func (silent) Done(int)          {}
func (silent) End()              {}

func patchIP(ctx context.Context, ip *networkingv1.IPAddress, metadata map[string]any) error {
	body := suite.Must(json.Marshal(map[string]any{"metadata": metadata}))
	err := admin.Patch(ctx, ip, client.RawPatch(types.StrategicMergePatchType, body), client.FieldOwner(v1alpha1.ManagerRenumbering))
	if apierrors.IsInvalid(err) {
		return nil // its UID: another one has come
	}
	return client.IgnoreNotFound(err)
}

// update changes the Service.
func (r *renumbering) update(ctx context.Context, how func(*corev1.Service)) {
	GinkgoHelper()
	s := &corev1.Service{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.service}, s)).To(Succeed())
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	how(s)
	Expect(admin.Update(ctx, s, client.FieldOwner(v1alpha1.ManagerRenumbering))).To(Succeed())
}

// ipAddress reads one, nil if there is none.
func ipAddress(ctx context.Context, address string) *networkingv1.IPAddress {
	GinkgoHelper()
	ip := &networkingv1.IPAddress{}
	return suite.UnlessGone(ip, admin.Get(ctx, client.ObjectKey{Name: address}, ip))
}

// complaints are what the operator has told about the addresses, and about the Service.
func (r *renumbering) complaints(ctx context.Context) (out []string) {
	GinkgoHelper()
	kube := suite.Must(kubernetes.NewForConfig(environment.Config))
	list := suite.Must(kube.EventsV1().Events("").List(ctx, metav1.ListOptions{}))
	about := append([]string{r.service}, slices.Concat(r.from, r.to)...)
	for _, e := range list.Items {
		if strings.HasPrefix(e.ReportingController, "clusterip-operator") && slices.Contains(about, e.Regarding.Name) {
			out = append(out, e.Reason+": "+e.Note)
		}
	}
	return out
}

// state is what matters of the Service and the IPAddresses: nothing of it changes by itself.
func (r *renumbering) state(ctx context.Context) (out []string) {
	GinkgoHelper()
	for _, address := range slices.Concat(r.from, r.to) {
		if ip := ipAddress(ctx, address); ip != nil {
			out = append(out, fmt.Sprint(address, ip.UID, ip.DeletionTimestamp, ip.Finalizers, ip.Labels[networkingv1.LabelManagedBy], ip.Labels[v1alpha1.LabelPurpose]))
		}
	}
	return out
}
