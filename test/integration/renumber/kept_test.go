package renumber_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

var _ = Describe("kubectl clusterip renumber kept", Label("all"), func() {
	AfterEach(forget)

	It("lists what renumbering has created and nothing else, and deletes what is old enough", func(ctx SpecContext) {
		was, file := handedOver(ctx)
		lies := framework.NewService(was.Namespace, "lies", framework.WithClusterIPs("10.96.0.9"))
		lies.Labels = map[string]string{v1alpha1.LabelPurpose: v1alpha1.PurposeSecond}
		lies.Annotations = map[string]string{v1alpha1.AnnotationSecondOf: "web/" + string(was.UID)}
		create(ctx, lies)
		listed := succeed(ctx, "kept", "-n", was.Namespace)
		for _, a := range was.Spec.ClusterIPs {
			Expect(listed).To(MatchRegexp(`%s/web-former-[0-9a-f]{10} keeps %s of web since 20.*, not counted`, was.Namespace, a))
		}
		Expect(listed).To(ContainSubstring("2 second Services"))
		Expect(succeed(ctx, "kept", "-n", "default")).To(ContainSubstring("0 second Services"))
		Expect(succeed(ctx, "kept", "--delete", "--older-than=1h")).NotTo(ContainSubstring("deleted"))
		Expect(succeed(ctx, "kept", "--delete", "--older-than=1ms", "--dry-run")).To(ContainSubstring("would be deleted, with " + was.Spec.ClusterIPs[0]))
		Expect(secondsIn(ctx, was.Namespace)).To(HaveLen(3))
		Expect(succeed(ctx, "kept", "--delete", "--older-than=1ms")).To(ContainSubstring("deleted, with " + was.Spec.ClusterIPs[1]))
		Expect(secondsIn(ctx, was.Namespace)).To(HaveLen(1), "the tenant's own")
		succeed(ctx, "status", "--from", file)
		expectWhole(ctx, "new", []*corev1.Service{was})
		expectHandedOver(ctx)
	})

	It("refuses flags that fit no deadline", func(ctx SpecContext) {
		refused(ctx, 2, "--delete needs --older-than", "kept", "--delete")
		refused(ctx, 2, "--older-than must not be negative", "kept", "--delete", "--older-than=-1h")
		refused(ctx, 2, "--in-use and --dry-run are for --delete", "kept", "--in-use")
		refused(ctx, 2, "invalid argument", "kept", "--older-than=soon")
	})
})

var _ = Describe("kubectl clusterip renumber plan, where other projects know the range", Label("all"), func() {
	It("says who they are, and what to change", func(ctx SpecContext) {
		namespace, _ := several(ctx, 1)
		offer(ctx)
		c.Apply(ctx, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bgpconfigurations.crd.projectcalico.org}
spec:
  group: crd.projectcalico.org
  names: {kind: BGPConfiguration, plural: bgpconfigurations, singular: bgpconfiguration, listKind: BGPConfigurationList}
  scope: Cluster
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kubeadm-config, namespace: kube-system}
data: {ClusterConfiguration: "networking: {serviceSubnet: '10.96.0.0/24,fd00:10:96::/120'}"}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-router, namespace: kube-system}
spec:
  selector: {matchLabels: {app: kube-router}}
  template:
    metadata: {labels: {app: kube-router}}
    spec: {containers: [{name: kube-router, image: kube-router, args: [--service-cluster-ip-range=10.96.0.0/12], env: [{name: NO_PROXY, value: ".svc,10.0.0.0/8"}]}]}
`)
		c.Kubectl(ctx, "wait", "crd/bgpconfigurations.crd.projectcalico.org", "--for=condition=Established", "--timeout=10s")
		c.Apply(ctx, `{apiVersion: crd.projectcalico.org/v1, kind: BGPConfiguration, metadata: {name: default}, spec: {serviceClusterIPs: [{cidr: 10.96.0.0/24}, {cidr: "fd00::/8"}]}}`)
		DeferCleanup(func(ctx SpecContext) {
			c.Kubectl(ctx, "delete", "crd/bgpconfigurations.crd.projectcalico.org")
			Expect(c.Client().CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(ctx, "kubeadm-config", metav1.DeleteOptions{})).To(Succeed())
			Expect(c.Client().AppsV1().DaemonSets(metav1.NamespaceSystem).Delete(ctx, "kube-router", metav1.DeleteOptions{})).To(Succeed())
		})
		Expect(suite.Exits(0, renumber(ctx, "plan", "-n", namespace, "--range=kubernetes", "--to=new", "--keep=none")).Stdout).To(And(
			ContainSubstring("3 places beside Services know the old ranges and not the new ones\n"),
			ContainSubstring("BGPConfiguration default (crd.projectcalico.org), spec.serviceClusterIPs.cidr 10.96.0.0/24: add the new range"),
			ContainSubstring("ConfigMap kube-system/kubeadm-config, networking.serviceSubnet 10.96.0.0/24,fd00:10:96::/120: set the new range"),
			ContainSubstring("DaemonSet kube-system/kube-router, container kube-router, --service-cluster-ip-range 10.96.0.0/12: add the new range"),
			Not(ContainSubstring("NO_PROXY")), Not(ContainSubstring("not looked at")),
		))
	})
})
