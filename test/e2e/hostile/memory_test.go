package hostile_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
)

// footprint is what the agent occupies, and what it has in the kernel.
type footprint struct {
	memory int64
	rules  int64
}

// footprint measures it now.
func (env *fixture) footprint(ctx context.Context) footprint {
	GinkgoHelper()
	bytes, err := env.Agent.RSS()
	Expect(err).NotTo(HaveOccurred())
	return footprint{memory: bytes, rules: int64(env.Metric(ctx, "sync_proxy_rules_iptables_total"))}
}

func (f footprint) String() string {
	return fmt.Sprintf("%.1f MiB, %d rules", float64(f.memory)/(1<<20), f.rules)
}

// perRule is what an agent may take for a rule, or an element, that it has in the kernel: measured
// with 10,000 endpoints of one Service.
func (env *fixture) perRule() int64 {
	if env.Mode == environment.Native {
		return 512
	}
	return 1536
}

const (
	// perByte is what it may take for each byte of an object that says so.
	perByte = 2
	// unused is what it may have beside: what waits to be collected, and what it does not give back
	// because it may soon need it again (an agent keeps up to 32 MiB on purpose).
	unused = 16 << 20
)

// affordable expects that the memory beside a party is that of the calm agent, and what the objects
// of the party cost, and three tenths more.
func (env *fixture) affordable(beside footprint) {
	GinkgoHelper()
	objects := env.objects.Load()
	limit := (env.calm.memory+env.perRule()*max(beside.rules-env.calm.rules, 0)+perByte*objects)*13/10 + unused
	Expect(beside.memory).To(BeNumerically("<=", limit), "beside the party, whose objects have %d bytes: %s; without: %s", objects, beside, env.calm)
}
