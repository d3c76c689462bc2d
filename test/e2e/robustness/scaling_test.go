package robustness_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// many are the connections during which a Service goes from ten endpoints to one, and back.
const many = 1_000_000

// mortality has a pod refuse connections to addresses of its own that are in a set, as if the pod
// that had one had ended. Those that are there go on.
const mortality = `table inet mortality {
	set IPv4 { type ipv4_addr; }
	set IPv6 { type ipv6_addr; }
	chain input {
		type filter hook input priority 0;
		tcp flags & (syn | ack) == syn ip daddr @IPv4 reject with tcp reset
		tcp flags & (syn | ack) == syn ip6 daddr @IPv6 reject with tcp reset
	}
}
`

// nft runs a script of nft in a pod.
func (env *translating) nft(ctx context.Context, pod *network.Namespace, script string) {
	GinkgoHelper()
	cmd := pod.Command(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
}

// end has endpoints refuse connections, live has them serve.
func (env *translating) end(ctx context.Context, all []environment.Endpoint) {
	var script strings.Builder
	for _, e := range all {
		for _, f := range network.Families {
			fmt.Fprintf(&script, "add element inet mortality %s { %s }\n", f, e.Addr(f))
		}
	}
	env.nft(ctx, env.Pod2, script.String())
}

func (env *translating) live(ctx context.Context) {
	env.nft(ctx, env.Pod2, "flush set inet mortality IPv4\nflush set inet mortality IPv6\n")
}

// leads waits until the agent says that so many endpoints are led to at connect().
func (env *translating) leads(ctx context.Context, endpoints int) {
	GinkgoHelper()
	Eventually(func() (counts []int) {
		told := suite.Must(env.Agent.Get(ctx, "/debug/dump?of="+env.Name+"/"+env.service.Name))
		for line := range strings.Lines(told) {
			if _, to, is := strings.Cut(line, "connections so far, to "); is {
				counts = append(counts, len(strings.Fields(to)))
			}
		}
		return counts
	}).WithTimeout(environment.Soon).Should(Equal([]int{endpoints, endpoints}))
}

var _ = Describe("Endpoints of a Service whose connections are translated at connect()", Label("soak"), func() {
	for _, mode := range translatingModes {
		It("go from ten to one, and none of a million connections is refused, "+mode, func(ctx SpecContext) {
			env := newTranslating(ctx, mode, "pods")
			env.nft(ctx, env.Pod2, mortality)
			traffic, tried := env.traffic(), 0
			for tried < many {
				env.leads(ctx, 10)
				time.Sleep(time.Second)
				env.Endpoints(ctx, env.service, env.some(1, 1)...)
				env.leads(ctx, 1)
				time.Sleep(time.Second) // for each connect() that is under way
				env.end(ctx, env.some(2, 10))
				time.Sleep(time.Second)
				env.live(ctx)
				env.Endpoints(ctx, env.service, env.some(1, 10)...)
				var losses []string
				tried, losses = traffic.Count()
				Expect(losses).To(BeEmpty(), "of %d connections", tried)
			}
			traffic.LostNothing()
			AddReportEntry(fmt.Sprintf("%d connections", tried))
		})
	}
})
