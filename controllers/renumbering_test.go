package controllers_test

import (
	"context"
	"encoding/json"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// renumbering takes one Service from addresses to new ones as `kubectl clusterip renumber` does,
// under an admin's name, and can stop between any two steps.
type renumbering struct {
	service  string
	from, to []string
	uid      types.UID // of the Service
}

// renumber creates a Service with an address of each family that is to be renumbered.
func renumber(ctx context.Context, name string, from, to []string, options ...framework.ServiceOption) *renumbering {
	GinkgoHelper()
	var s *corev1.Service
	Eventually(func() error { // the API server has to know the ServiceCIDR
		s = dual(name, append(options, framework.WithClusterIPs(from...))...)
		return admin.Create(ctx, s)
	}).Should(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, dual(name)))).To(Succeed()) })
	return &renumbering{name, from, to, s.UID}
}

// back is the way back.
func (r *renumbering) back() *renumbering { return &renumbering{r.service, r.to, r.from, r.uid} }

// steps are the command's, in order; each returns when the API server has done its part.
func (r *renumbering) steps() []func(context.Context) {
	return []func(context.Context){r.hold, r.letGo, r.move, r.relabel, r.end}
}

// do takes the first n steps.
func (r *renumbering) do(ctx context.Context, n int) {
	GinkgoHelper()
	for _, step := range r.steps()[:n] {
		step(ctx)
	}
}

// patch changes the metadata of the IPAddress of each address that is to go.
func (r *renumbering) patch(ctx context.Context, addresses []string, metadata map[string]any) {
	GinkgoHelper()
	for _, address := range addresses {
		ip := ipAddress(ctx, address)
		Expect(ip).NotTo(BeNil(), address)
		metadata["uid"] = ip.UID
		Expect(patchIP(ctx, ip, metadata)).To(Succeed())
	}
}

func patchIP(ctx context.Context, ip *networkingv1.IPAddress, metadata map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	Expect(err).NotTo(HaveOccurred())
	err = admin.Patch(ctx, ip, client.RawPatch(types.StrategicMergePatchType, body), client.FieldOwner(v1alpha1.ManagerRenumbering))
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

func (r *renumbering) hold(ctx context.Context) {
	r.patch(ctx, r.from, map[string]any{"finalizers": []string{v1alpha1.FinalizerFormer}})
}

func (r *renumbering) letGo(ctx context.Context) {
	r.update(ctx, func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: v1alpha1.ExternalNameRenumbering, Ports: s.Spec.Ports}
		list := slices.DeleteFunc(strings.Split(s.Annotations[v1alpha1.AnnotationFormerIPs], ","), func(a string) bool { return a == "" })
		s.Annotations[v1alpha1.AnnotationFormerIPs] = strings.Join(append(list, r.from...), ",")
		s.Annotations[v1alpha1.AnnotationRenumbering] = `{"type":"ClusterIP"}`
	})
	for _, address := range r.from {
		Eventually(ipAddress).WithArguments(ctx, address).Should(HaveField("DeletionTimestamp", Not(BeNil())), "the API server lets go of %s", address)
	}
}

func (r *renumbering) move(ctx context.Context) {
	r.update(ctx, func(s *corev1.Service) {
		both := corev1.IPFamilyPolicyRequireDualStack
		s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilyPolicy = corev1.ServiceTypeClusterIP, "", r.to[0], r.to, &both
		list := strings.Split(s.Annotations[v1alpha1.AnnotationFormerIPs], ",")
		s.Annotations[v1alpha1.AnnotationFormerIPs] = strings.Join(slices.DeleteFunc(list, func(a string) bool { return slices.Contains(r.to, a) }), ",")
		delete(s.Annotations, v1alpha1.AnnotationRenumbering)
	})
}

func (r *renumbering) relabel(ctx context.Context) {
	r.patch(ctx, r.from, map[string]any{
		"labels":      map[string]any{networkingv1.LabelManagedBy: v1alpha1.ManagedByOperator, v1alpha1.LabelPurpose: v1alpha1.PurposeAdditional},
		"annotations": map[string]any{v1alpha1.AnnotationServiceUID: r.uid},
	})
}

func (r *renumbering) end(ctx context.Context) {
	r.update(ctx, func(s *corev1.Service) { delete(s.Annotations, v1alpha1.AnnotationFormerIPs) })
	r.free(ctx, r.from)
}

// free takes the finalizer off. The operator may be first once the Service lists it no more.
func (r *renumbering) free(ctx context.Context, addresses []string) {
	GinkgoHelper()
	for _, address := range addresses {
		if ip := ipAddress(ctx, address); ip != nil {
			Expect(patchIP(ctx, ip, letsGo(ip))).To(Succeed())
		}
	}
}

func letsGo(ip *networkingv1.IPAddress) map[string]any {
	return map[string]any{"uid": ip.UID, "$deleteFromPrimitiveList/finalizers": []string{v1alpha1.FinalizerFormer}}
}

// ipAddress reads one, nil if there is none.
func ipAddress(ctx context.Context, address string) *networkingv1.IPAddress {
	GinkgoHelper()
	ip := &networkingv1.IPAddress{}
	err := admin.Get(ctx, client.ObjectKey{Name: address}, ip)
	if apierrors.IsNotFound(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return ip
}

// complaints are what the operator has told about the addresses, and about the Service.
func (r *renumbering) complaints(ctx context.Context) (out []string) {
	GinkgoHelper()
	kube, err := kubernetes.NewForConfig(environment.Config)
	Expect(err).NotTo(HaveOccurred())
	list, err := kube.EventsV1().Events("").List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
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
