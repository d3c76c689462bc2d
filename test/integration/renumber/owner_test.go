package renumber_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// edit merges a patch into a Service.
func edit(ctx context.Context, namespace, name, patch string) {
	GinkgoHelper()
	suite.Must(c.Client().CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
}

func remove(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Expect(c.Client().CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
}

// one is a Service of both families that is about to be moved.
func one(ctx context.Context, change func(*corev1.Service), args ...string) (was *corev1.Service, file string) {
	GinkgoHelper()
	s := framework.NewService(newNamespace(ctx), "web", framework.PreferDualStack())
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	if change != nil {
		change(s)
	}
	was = create(ctx, s)
	offer(ctx)
	file, result := plan(ctx, was.Namespace, args...)
	Expect(result.ExitCode).To(BeZero(), result.String())
	return was, file
}

// handedOver is one that has moved, and whose second Services keep its old addresses.
func handedOver(ctx context.Context) (was *corev1.Service, file string) {
	GinkgoHelper()
	was, file = one(ctx, selecting, bySecond)
	Expect(suite.Exits(1, renumber(ctx, "run", "--from", file, "--wait=false")).Stdout).To(ContainSubstring("0 were left as they are"))
	return was, file
}

var _ = Describe("kubectl clusterip renumber, while others write", Label("all"), func() {
	It("leaves Services as their owners want them", func(ctx SpecContext) {
		const services = 30
		namespace, before := several(ctx, services)
		offer(ctx)
		file, _ := plan(ctx, namespace)
		api := c.Client().CoreV1().Services(namespace)
		var owners sync.WaitGroup
		begin := make(chan struct{})
		for i, s := range before {
			owners.Go(func() {
				defer GinkgoRecover()
				<-begin
				switch i % 5 {
				case 0: // labels and a selector, again and again
					for n := range 10 {
						edit(ctx, namespace, s.Name, fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}},"spec":{"selector":{"n":"%d"}}}`, n, n))
					}
				case 1:
					edit(ctx, namespace, s.Name, `{"spec":{"ports":[{"name":"http","port":80},{"name":"more","port":81}]}}`)
				case 2:
					remove(ctx, namespace, s.Name)
				case 3:
					remove(ctx, namespace, s.Name)
					address := fmt.Sprintf("10.96.0.%d", 4+i/5) // one that is drawn might be planned for another Service
					create(ctx, framework.NewService(namespace, s.Name, framework.WithLabel("anew", "yes"), framework.WithClusterIPs(address)))
				}
			})
		}
		p := newProxy()
		var once sync.Once
		p.watch(nil, func(int) { once.Do(func() { close(begin) }) }) // the first write
		code, first := wait(ctx, p.start(ctx, append([]string{"run", "--from", file, "--workers=8"}, quick...)...))
		owners.Wait()
		Expect(code).To(BeElementOf(0, 1), first)
		code, printed := wait(ctx, p.start(ctx, append([]string{"run", "--from", file}, quick...)...)) // what was edited last
		for i, was := range before {
			now, err := api.Get(ctx, was.Name, metav1.GetOptions{})
			if i%5 == 2 {
				Expect(err).To(HaveOccurred())
				Expect(printed).To(ContainSubstring("%s/%s: it was deleted", namespace, was.Name))
				continue
			}
			Expect(err).NotTo(HaveOccurred())
			if i%5 == 3 {
				Expect(now.Labels).To(HaveKey("anew"))
				Expect(now.Annotations).To(BeEmpty())
				Expect(printed).To(ContainSubstring("%s/%s: it was deleted, and another one", namespace, was.Name))
				continue
			}
			for _, a := range now.Spec.ClusterIPs {
				Expect(inRange(a)).To(Equal("new"), "%s\n%s\n%s", was.Name, first, printed)
			}
			Expect(now.Annotations).To(BeEmpty())
			switch i % 5 {
			case 0:
				Expect([]string{now.Labels["n"], now.Spec.Selector["n"]}).To(HaveEach("9"))
			case 1: // a NodePort Service loses it if that was between the two updates
				Expect(now.Spec.Ports).To(Or(HaveLen(2), HaveLen(1+(i+1)%2)))
			default:
				Expect(now.Spec.Ports).To(Equal(was.Spec.Ports), was.Name)
			}
		}
		Expect(code).To(Equal(1), printed)
		expectNothingLeaked(ctx)
	})

	DescribeTable("leaves a Service as its owner wants it between the two updates", func(ctx SpecContext, patch, wantPrinted string, check func(was, now *corev1.Service)) {
		was, file := one(ctx, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.77"} }, "--keep=none")
		_, printed := stopBetween(ctx, was.Name, func() { edit(ctx, was.Namespace, was.Name, patch) }, append(runOf(file), "--accept-interruption")...)
		now := get(ctx, was.Namespace, was.Name)
		Expect(now.Annotations).To(BeEmpty(), printed)
		Expect(printed).To(ContainSubstring(wantPrinted))
		check(was, now)
		expectNothingLeaked(ctx)
	},
		Entry("its labels", `{"metadata":{"labels":{"a":"b"}}}`, "1 of 1 Services have", func(_, now *corev1.Service) {
			Expect(now.Labels).To(HaveKeyWithValue("a", "b"))
			Expect(inRange(now.Spec.ClusterIP)).To(Equal("new"))
		}),
		Entry("without its external IPs", `{"spec":{"externalIPs":null}}`, "1 of 1 Services have", func(_, now *corev1.Service) {
			Expect(now.Spec.ExternalIPs).To(BeEmpty())
			Expect(inRange(now.Spec.ClusterIP)).To(Equal("new"))
		}),
		Entry("its type again", `{"spec":{"type":"ClusterIP","externalName":null}}`, "it has other addresses than the plan knows", func(was, now *corev1.Service) {
			Expect(now.Spec.ClusterIPs).NotTo(ContainElement(BeElementOf(was.Spec.ClusterIPs)))
			Expect(now.Spec.ExternalIPs).To(Equal(was.Spec.ExternalIPs))
		}),
		Entry("an alias of his own", `{"spec":{"externalName":"example.com"}}`, "its owner has made it an ExternalName", func(_, now *corev1.Service) {
			Expect(now.Spec.ExternalName).To(Equal("example.com"))
		}),
		Entry("without the annotation that we need", `{"metadata":{"annotations":{"`+v1alpha1.AnnotationRenumbering+`":null}}}`, "its owner has made it an ExternalName", func(_, now *corev1.Service) {
			Expect(now.Spec.Type).To(Equal(corev1.ServiceTypeExternalName))
		}),
	)
})
