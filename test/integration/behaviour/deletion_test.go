package behaviour_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// grace is how long a ServiceCIDR that nothing needs stays after its deletion, until no API server allocates from it any more.
const grace = 10 * time.Second

// scene is a ServiceCIDR that is deleted among others that stay.
type scene struct {
	name string
	// deleted are the CIDRs of the one that is deleted, staying those of the others.
	deleted, staying []string
	// held are the addresses of a Service.
	held []string
}

// free are scenes in which nothing needs the range that is deleted.
var free = []scene{
	{"empty", []string{"10.120.0.0/24", "fd00:120::/120"}, nil, nil},
	{"twin-ipv4", []string{"10.121.0.0/24"}, []string{"10.121.0.0/24"}, []string{"10.121.0.9"}},
	{"twin-ipv6", []string{"fd00:121::/120"}, []string{"fd00:121::/120"}, []string{"fd00:121::9"}},
	{"covered-ipv4", []string{"10.122.0.0/26"}, []string{"10.122.0.0/24"}, []string{"10.122.0.9"}},
	{"covered-ipv6", []string{"fd00:122::/122"}, []string{"fd00:122::/120"}, []string{"fd00:122::9"}},
	// The addresses of the whole are in one half or the other.
	{"halved", []string{"10.123.0.0/24"}, []string{"10.123.0.0/25", "10.123.0.128/25"}, []string{"10.123.0.9"}},
}

// occupied are scenes in which a Service needs the range that is deleted.
var occupied = []scene{
	{"occupied-ipv4", []string{"10.124.0.0/24"}, nil, []string{"10.124.0.9"}},
	{"occupied-ipv6", []string{"fd00:124::/120"}, nil, []string{"fd00:124::9"}},
	// The twin has only one of the families.
	{"half-covered", []string{"10.125.0.0/24", "fd00:125::/120"}, []string{"10.125.0.0/24"}, []string{"10.125.0.9", "fd00:125::9"}},
	// The address is the network address of one half, and none of the other.
	{"seam", []string{"10.126.0.0/24"}, []string{"10.126.0.0/25", "10.126.0.128/25"}, []string{"10.126.0.128"}},
}

func (s scene) others() []string {
	names := make([]string, len(s.staying))
	for i := range s.staying {
		names[i] = s.name + "-staying-" + string(rune('a'+i))
	}
	return names
}

func (s scene) create(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	c.CreateServiceCIDR(ctx, s.name, s.deleted...)
	for i, name := range s.others() {
		c.CreateServiceCIDR(ctx, name, s.staying[i])
	}
}

func (s scene) hold(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	c.WaitLookedAfter(ctx, append(s.others(), s.name)...)
	if len(s.held) > 0 {
		c.HoldAddress(ctx, s.name, s.held...)
	}
}

// expectOwned wants the Service of the scene to have its addresses still.
func (s scene) expectOwned(ctx context.Context, g Gomega, c *cluster.Cluster) {
	for _, address := range s.held {
		g.Expect(c.Owner(ctx, address)).To(Equal(cluster.Namespace+"/"+s.name), s.name)
	}
}

// All ranges are created in both clusters and deleted at the same moment; the specs watch what becomes of them.
var _ = Describe("A ServiceCIDR that is deleted", Label("all"), Ordered, ContinueOnFailure, func() {
	clusters := map[string]*cluster.Cluster{}
	var deleted time.Time

	BeforeAll(func(ctx SpecContext) {
		scenes := append(free, occupied...)
		for name, options := range variants {
			c := cluster.Start(ctx, options)
			clusters[name] = c
			for _, s := range scenes {
				s.create(ctx, c)
			}
			for _, s := range scenes {
				s.hold(ctx, c)
			}
		}
		deleted = time.Now()
		for _, c := range clusters {
			for _, s := range scenes {
				c.DeleteServiceCIDRs(ctx, s.name)
			}
		}
	})

	// API servers learn of the deletion one after the other. Until all have, the range must stay, needed or not.
	// One spec for both clusters, because for a second one it would be too late.
	It("stays for the grace of ten seconds", func(ctx SpecContext) {
		Expect(time.Since(deleted)).To(BeNumerically("<", grace-2*time.Second), "too late to see anything")
		Consistently(func(g Gomega) {
			for variant, c := range clusters {
				for _, s := range free {
					// Ages are told in whole seconds, and the answer of the last question takes its time.
					if time.Since(deleted) < grace-2*time.Second {
						g.Expect(c.ServiceCIDR(ctx, s.name)).NotTo(BeNil(), "%s: %s", variant, s.name)
					}
				}
			}
		}).WithTimeout(grace - time.Since(deleted)).Should(Succeed())
	})

	// The range is empty, or all that is in it is in another range as well: one that is the same, one around it, or two halves.
	DescribeTable("goes when nothing needs it, and its Services stay as they are", func(ctx SpecContext, variant string) {
		c := clusters[variant]
		for _, s := range free {
			Eventually(func() any { return c.ServiceCIDR(ctx, s.name) }).WithTimeout(cluster.Patience).Should(BeNil(), s.name)
			Expect(c.Remaining(ctx, s.others()...)).To(Equal(s.others()), s.name)
			s.expectOwned(ctx, Default, c)
		}
	}, eachVariant())

	// A Service has an address in the range and in no other. Whoever watches sees that the range waits.
	DescribeTable("is not Ready and stays until its last Service has gone", func(ctx SpecContext, variant string) {
		c := clusters[variant]
		for _, s := range occupied {
			Eventually(func() metav1.Condition { return c.Condition(ctx, s.name, cluster.Ready) }).WithTimeout(cluster.Patience).Should(And(
				HaveField("Status", metav1.ConditionFalse), HaveField("Reason", networkingv1.ServiceCIDRReasonTerminating)), s.name)
		}
		Consistently(func(g Gomega) {
			for _, s := range occupied {
				g.Expect(c.Condition(ctx, s.name, cluster.Ready).Status).To(Equal(metav1.ConditionFalse), s.name)
				s.expectOwned(ctx, g, c)
			}
		}).WithTimeout(max(time.Second, grace+3*time.Second-time.Since(deleted))).Should(Succeed())

		for _, s := range occupied {
			Expect(c.Client().CoreV1().Services(cluster.Namespace).Delete(ctx, s.name, metav1.DeleteOptions{})).To(Succeed())
		}
		for _, s := range occupied {
			Eventually(func() any { return c.ServiceCIDR(ctx, s.name) }).WithTimeout(cluster.Patience).Should(BeNil(), s.name)
			Expect(c.Remaining(ctx, s.others()...)).To(Equal(s.others()), s.name)
		}
		expectHealth(ctx, c)
	}, eachVariant())
})
