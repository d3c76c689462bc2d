package admission_test

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// nonsense are values of the annotation that names ranges, each with what its author has to read. The API server takes any text up to
// 256 KiB.
var nonsense = map[string]struct{ value, word string }{
	"newlines":             {"sound\nnowhere\r\n", additionalFrom},
	"a name of 300":        {strings.Repeat("x", 300), additionalFrom},
	"unicode":              {"ranges-für-alle,🦜,\u202esound", additionalFrom},
	"an invalid UTF-8 end": {"sound\xc3", additionalFrom},
	"JSON":                 {`{"ranges": ["sound"]}`, additionalFrom},
	"shell":                {"$(reboot); rm -rf / | `cat /etc/passwd` && sound", additionalFrom},
	"SQL":                  {"sound'; DROP TABLE services; --", additionalFrom},
	"a format":             {"%s%s%n%!d(MISSING)", additionalFrom},
	"thousands of commas":  {strings.Repeat(",", 5000), additionalFrom},
	"a comma at the end":   {"sound,", additionalFrom},
	"a name twice":         {"sound,sound", additionalFrom},
	"thousands of names":   {strings.Repeat("nowhere,", 5000), additionalFrom},
	"100 different names":  {hundredNames(), additionalFrom},
	"an upper-case name":   {"SOUND", additionalFrom},
	"a path":               {"../../sound", additionalFrom},
	"a template":           {"{{ .Values.range }}", additionalFrom},
	"100 KiB":              {strings.Repeat("a", 100<<10), additionalFrom},
	"a CIDR":               {"10.140.0.0/24", additionalFrom},
	// ServiceCIDRs may be called like that.
	"an address": {"10.140.0.20", "ServiceCIDR 10.140.0.20"},
}

func hundredNames() string {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("range-%d", i))
	}
	return strings.Join(names, ",")
}

// Annotations are anybody's. What no range can be called is refused or reported, and the Service has its ClusterIPs, and
// whoever asks for something sensible beside it gets it.
var _ = Describe("An annotation that makes no sense", Label("all"), Ordered, ContinueOnFailure, func() {
	const sound4, sound6 = "10.140.0.0/24", "fd00:10:140::/120"
	n := 0

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, "sound", nil, sound4, sound6)
	})

	AfterEach(func(ctx SpecContext) {
		n++
		name := fmt.Sprintf("sound-%d", n)
		service := c.CreateService(ctx, name, framework.RequireDualStack(), withAdditional("sound"))
		getsAdditional(ctx, name, sound4, sound6)
		c.DeleteServices(ctx, service)
		hasNone(ctx, name) // a spec may plant something where they were
	})

	for what, it := range nonsense {
		It("is refused or reported: "+what, func(ctx SpecContext) {
			name := fmt.Sprintf("senseless-%d", n)
			service, err := c.TryService(ctx, name, framework.RequireDualStack(), withAdditional(it.value))
			if err != nil {
				Expect(err.Error()).To(And(ContainSubstring(additionalFrom), Not(MatchRegexp("panic|nil pointer"))))
				Expect(len(err.Error())).To(BeNumerically("<", 2000), "nobody reads that")
				return
			}
			DeferCleanup(func(ctx SpecContext) {
				c.DeleteServices(ctx, service)
				hasNone(ctx, name)
			})
			Expect(service.Spec.ClusterIPs).To(HaveLen(2))
			complains(ctx, name, it.word)
			for _, note := range c.Events(ctx).OnService(name).Ours().Notes() {
				Expect(len(note)).To(BeNumerically("<=", 1024), "the API server takes no more")
			}
			Expect(c.Breaches(ctx)).To(BeEmpty())
		})
	}

	// Sloppy, but not senseless.
	DescribeTable("is forgiven", func(ctx SpecContext, value string, cidrs ...string) {
		service := c.CreateService(ctx, "sloppy", framework.RequireDualStack(), withAdditional(value))
		if len(cidrs) > 0 {
			getsAdditional(ctx, "sloppy", cidrs...)
		}
		Consistently(additional).WithArguments(ctx, "sloppy").WithTimeout(time.Second).Should(HaveLen(len(cidrs)))
		c.DeleteServices(ctx, service)
		hasNone(ctx, "sloppy")
	},
		Entry("spaces around names", "  sound ", sound4, sound6),
		Entry("nothing", ""),
		Entry("spaces alone", "   "),
	)

	It("is not one that names another family's range alone", func(ctx SpecContext) {
		c.OfferRange(ctx, "sound-6", nil, "fd00:10:141::/120")
		c.CreateService(ctx, "other-family", framework.WithFamilies(corev1.IPv4Protocol), withAdditional("sound-6"))
		complains(ctx, "other-family", "sound-6", "family")
		Expect(additional(ctx, "other-family")).To(BeEmpty())
	})

	// The annotations of IPAddresses of ours are anybody's too, who may write IPAddresses.
	It("does no harm on an IPAddress of ours", func(ctx SpecContext) {
		for i, annotations := range []map[string]string{
			nil,
			{"clusterip-operator.io/service-uid": "\n", "clusterip-operator.io/service-cidr": "🦜"},
			{"clusterip-operator.io/released-at": "yesterday", "clusterip-operator.io/last-service": "a/b/c"},
			{"clusterip-operator.io/released-at": "9999-12-31T23:59:59.999999999Z", "clusterip-operator.io/reservation": strings.Repeat("x", 5000)},
		} {
			for j, kind := range []string{"reservation", "cooling", "additional", "claim", "🦜"} {
				if kind == "🦜" {
					kind = "unheard-of"
				}
				address := fmt.Sprintf("10.140.0.%d", 100+10*i+j)
				planted := framework.NewIPAddress(address, cluster.Namespace, "never-was", framework.ManagedBy(ourManager), framework.WithIPLabel(purpose, kind))
				planted.Annotations = annotations
				c.CreateIPAddress(ctx, planted)
				DeferCleanup(func(ctx SpecContext) {
					_ = c.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
				})
			}
		}
		// What happens to them is theirs. That others go on is what AfterEach wants.
		Expect(c.CreateService(ctx, "beside-junk", framework.RequireDualStack()).Spec.ClusterIPs).To(HaveLen(2))
	})
})
