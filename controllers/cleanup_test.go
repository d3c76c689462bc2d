package controllers_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/cleanup"
)

// Without its IPAddress, an API server would give the address of a living Service to another one.
var _ = DescribeTable("The clean-up looks at what an IPAddress names, for somebody may have labelled that of a ClusterIP as the operator's",
	func(ctx SpecContext, purpose string, wantDeleted bool) {
		service := create(ctx, dual("relabelled"))
		labels := fmt.Appendf(nil, `{"metadata":{"labels":{"ipaddress.kubernetes.io/managed-by":"clusterip-operator.io","%s":%q}}}`, v1alpha1.LabelPurpose, purpose)
		for _, address := range service.Spec.ClusterIPs {
			ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: address}}
			Expect(collector.Patch(ctx, ip, client.RawPatch(types.MergePatchType, labels))).To(Succeed())
		}
		said := &strings.Builder{}
		Expect(cleanup.Run(ctx, cleanup.Options{Client: admin, Namespace: namespace, DryRun: true, Out: said})).To(Succeed())
		for _, address := range service.Spec.ClusterIPs {
			Expect(strings.Contains(said.String(), "would have deleted IPAddress "+address+",")).To(Equal(wantDeleted), said.String())
			ip := &networkingv1.IPAddress{}
			Expect(admin.Get(ctx, client.ObjectKey{Name: address}, ip)).To(Succeed())
			Expect(ip.Labels).To(HaveKeyWithValue(networkingv1.LabelManagedBy, v1alpha1.ManagedByOperator), "not repaired yet")
		}
	},
	Entry("without a purpose", "", false),
	Entry("as a reservation", v1alpha1.PurposeReservation, false),
	Entry("as an additional address", v1alpha1.PurposeAdditional, true),
)
