package controllers_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// The webhook lets pass what is insane, so that the API server's own validation answers. It has to
// refuse all of that.
var _ = Describe("What the webhook takes for insane", func() {
	It("is what a real API server refuses", func(ctx SpecContext) {
		var shapes []struct {
			Name, Verdict, Why string
			Service, Old       json.RawMessage
		}
		text, err := os.ReadFile("admission/testdata/shapes.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.UnmarshalStrict(text, &shapes)).To(Succeed())
		for _, shape := range shapes {
			By(shape.Name)
			service := shaped(shape.Service)
			var err error
			if shape.Old == nil {
				err = settled(func() error { return admin.Create(ctx, service, client.DryRunAll) })
			} else {
				old := shaped(shape.Old)
				Expect(settled(func() error { return admin.Create(ctx, old) })).To(Succeed())
				service.ResourceVersion = old.ResourceVersion
				err = settled(func() error { return admin.Update(ctx, service, client.DryRunAll) })
				Expect(admin.Delete(ctx, old)).To(Succeed())
			}
			switch shape.Verdict {
			case "accepted":
				Expect(err).NotTo(HaveOccurred(), shape.Name)
			case "denied":
				Expect(err).To(MatchError(apierrors.IsForbidden, "the webhook refuses it"), shape.Name)
				Expect(err).To(MatchError(ContainSubstring("write the address in its shortest form, in lower case")), shape.Name)
			default:
				Expect(err).To(MatchError(apierrors.IsInvalid, "the API server refuses it"), shape.Name)
			}
		}
	})
})

// settled is the answer of the API server once it asks the range that a shape is about. For a dry
// run it draws one of its ranges at random: that of a ServiceCIDR which another spec has just added
// or taken away may not be ready, and does not have the address.
func settled(try func() error) (err error) {
	GinkgoHelper()
	Eventually(func() bool {
		err = try()
		return err == nil || !strings.Contains(err.Error(), "allocator not ready") && !askedElsewhere(err)
	}).Should(BeTrue())
	return err
}

// askedElsewhere reports whether a range has refused an address that is none of the default ones.
func askedElsewhere(err error) bool {
	_, valid, outside := strings.Cut(err.Error(), "The range of valid IPs is ")
	defaults := strings.Split(framework.DefaultServiceClusterIPRange, ",")
	return outside && !slices.ContainsFunc(defaults, func(cidr string) bool { return strings.HasPrefix(valid, cidr) })
}

// shaped is a Service with one port, unless the shape says otherwise.
func shaped(text json.RawMessage) *corev1.Service {
	GinkgoHelper()
	s := framework.NewService(namespace, "")
	Expect(json.Unmarshal(text, s)).To(Succeed())
	return s
}
