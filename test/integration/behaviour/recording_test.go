package behaviour_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Here the default range is replaced by a wider one as in kubernetes#139134, of whose metrics the
// API server then says nothing until it allocates, and Prometheus' own program evaluates the rules
// of config/prometheus over what both really serve. An API server that also writes the bitmap
// (Kubernetes 1.33) refuses addresses of a range that is not the bitmap's.
var _ = It("An API server says nothing of a new default range, and what is recorded says it", Label("long"), func(ctx SpecContext) {
	const allocator, narrow, wide = "kube_apiserver_clusterip_allocator_", "10.96.0.0/24", "10.96.0.0/23"
	const wideSix = "fd00:10:96::/119"
	c := cluster.Start(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: narrow + ",fd00:10:96::/120", FeatureGates: framework.WithoutDualWrite}})
	c.CreateService(ctx, "web", framework.RequireDualStack())
	available := func(cidr string) bool {
		GinkgoHelper()
		_, found := apiMetrics(ctx, c).Value(allocator+"available_ips", "cidr", cidr)
		return found
	}
	Expect(available(narrow)).To(BeTrue(), "it has allocated there")

	Expect(c.API.Kill()).To(Succeed())
	Expect(c.Restart(ctx, framework.Options{ServiceClusterIPRange: wide + "," + wideSix, FeatureGates: framework.WithoutDualWrite})).To(Succeed())
	c.CreateServiceCIDR(ctx, "meanwhile", wide, wideSix)
	c.Kubectl(ctx, "delete", "servicecidr", "kubernetes")
	Eventually(c.ServiceCIDR).WithArguments(ctx, "kubernetes").Should(And(Not(BeNil()), HaveField("Spec.CIDRs", []string{wide, wideSix})))
	c.Kubectl(ctx, "delete", "servicecidr", "meanwhile")
	Eventually(c.Remaining).WithArguments(ctx, "meanwhile").Should(BeEmpty())
	Eventually(func() bool {
		_, found := operatorMetrics(ctx, c).Value("clusterip_operator_available_ips", "cidr", wide)
		return found
	}).Should(BeTrue())

	Expect(available(wide)).To(BeFalse(), "the API server has series of a range that it has not allocated from: what is recorded is not needed any more")
	recorded := func(name, more, value string) map[string]any {
		return map[string]any{"expr": fmt.Sprintf(`%s%s{cidr=%q}`, allocator, name, wideSix), "eval_time": "3m", "exp_samples": samples(
			fmt.Sprintf(`{__name__="%s%s", cidr=%q, recorded_by="clusterip-operator"%s}`, allocator, name, wideSix, more), value)}
	}
	evaluate(ctx, series(apiMetrics(ctx, c), operatorMetrics(ctx, c)),
		recorded("allocated_ips", "", "1"), recorded("available_ips", "", "510"),
		map[string]any{"expr": allocator + `allocation_errors_total{cidr="10.96.0.0/23",scope="dynamic"} == 0`, "eval_time": "3m", "exp_samples": samples(
			fmt.Sprintf(`{__name__="%sallocation_errors_total", cidr=%q, recorded_by="clusterip-operator", scope="dynamic"}`, allocator, wide), "0")})

	c.CreateService(ctx, "api", framework.RequireDualStack())
	Expect(available(wide)).To(BeTrue(), "it has allocated")
	Eventually(func() float64 {
		n, _ := operatorMetrics(ctx, c).Value("clusterip_operator_allocated_ips", "cidr", wideSix)
		return n
	}).Should(BeEquivalentTo(2))
	evaluate(ctx, series(apiMetrics(ctx, c), operatorMetrics(ctx, c)), map[string]any{
		"expr": fmt.Sprintf(`count by (recorded_by) (%savailable_ips{cidr=%q})`, allocator, wideSix), "eval_time": "3m", "exp_samples": samples("{}", "1"),
	})
})

func apiMetrics(ctx context.Context, c *cluster.Cluster) framework.Metrics {
	GinkgoHelper()
	text := suite.Must(c.Client().CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx))
	return suite.Must(framework.ParseMetrics(string(text)))
}

func operatorMetrics(ctx context.Context, c *cluster.Cluster) framework.Metrics {
	GinkgoHelper()
	return suite.Must(c.Operator.Metrics(ctx))
}

// series are what the rules look at, as promtool reads it: each is what it is for ten minutes.
func series(all ...framework.Metrics) (out []any) {
	for instance, one := range all {
		for _, sample := range one {
			name := string(sample.Metric[model.MetricNameLabel])
			if strings.HasPrefix(name, "kube_apiserver_clusterip_allocator_a") && !strings.Contains(name, "duration") ||
				strings.HasPrefix(name, "clusterip_operator_a") && !strings.Contains(name, "duration") || name == "apiserver_current_inflight_requests" {
				sample.Metric[model.InstanceLabel] = model.LabelValue(fmt.Sprint(instance))
				out = append(out, map[string]string{"series": sample.Metric.String(), "values": fmt.Sprintf("%vx10", float64(sample.Value))})
			}
		}
	}
	return out
}

// samples are one sample that a query is to return.
func samples(labels, value string) []any {
	return []any{map[string]any{"labels": labels, "value": json.Number(value)}}
}

// evaluate has promtool run the rules over series, and compare what queries return.
func evaluate(ctx context.Context, input []any, queries ...any) {
	GinkgoHelper()
	var rules struct{ Spec any }
	Expect(yaml.Unmarshal(suite.Must(os.ReadFile(filepath.Join(cluster.Repository, "config/prometheus/rules.yaml"))), &rules)).To(Succeed())
	folder := GinkgoT().TempDir()
	write := func(name string, content any) string {
		path := filepath.Join(folder, name)
		Expect(os.WriteFile(path, suite.Must(yaml.Marshal(content)), 0o600)).To(Succeed())
		return path
	}
	tests := write("tests.yaml", map[string]any{
		"rule_files": []string{write("rules.yaml", rules.Spec)}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": input, "promql_expr_test": queries}},
	})
	program := filepath.Join(suite.Must(framework.Assets("promtool")), "promtool")
	output, err := exec.CommandContext(ctx, program, "test", "rules", tests).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}
