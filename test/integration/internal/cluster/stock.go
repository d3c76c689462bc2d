package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

// Stock writes n copies of the Service "template", which the API server has made, to etcd: named by
// StockName, aged up to over, with an address per range of the dynamic band. So the template has
// one of the static band. Our operator must not run yet: it would take the first half for damage.
func (c *Cluster) Stock(ctx context.Context, n int, over time.Duration, ranges ...string) {
	GinkgoHelper()
	template, err := c.Client().CoreV1().Services(Namespace).Get(ctx, "template", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, ip := range template.Spec.ClusterIPs {
		b := netip.MustParseAddr(ip).AsSlice()
		Expect(binary.BigEndian.Uint16(b[len(b)-2:])).To(BeNumerically("<=", 16), "a copy may have %s", ip)
	}
	copies := seed.Copies{Etcd: c.Etcd.URL(), Template: Namespace + "/template", To: n, Pace: seed.Pace, Over: over}
	for _, text := range ranges {
		copies.Ranges = append(copies.Ranges, netip.MustParsePrefix(text))
	}
	for i := range copies.Ranges {
		of := copies
		of.Ranges = copies.Ranges[i : i+1]
		Expect(of.WriteIPAddresses(ctx)).To(Succeed())
	}
	Expect(copies.WriteServices(ctx)).To(Succeed())
	if c.API.DualWrites() {
		Expect(copies.WriteBitmaps(ctx)).To(Succeed())
	}
	Eventually(func() int { return len(c.IPAddresses(ctx)) }).Should(BeNumerically(">=", n*len(ranges)))
}

// StockName is the name of a Service that Stock has written.
func StockName(i int) string { return fmt.Sprintf("service-%06d", i) }
