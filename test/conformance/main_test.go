package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
)

func spec(text string, state types.SpecState, why string, labels ...string) types.SpecReport {
	return types.SpecReport{
		ContainerHierarchyTexts: []string{"[sig-network] Services"}, LeafNodeText: text, LeafNodeType: types.NodeTypeIt, State: state,
		LeafNodeLabels: labels, Failure: types.Failure{Message: why},
	}
}

func TestTables(t *testing.T) {
	other := spec("of somebody else", types.SpecStatePassed, "")
	other.ContainerHierarchyTexts = []string{"[sig-node] Pods"}
	ran, left, err := tables([]string{"ours", "theirs"}, []types.Report{
		{SpecReports: types.SpecReports{
			spec("b", types.SpecStatePassed, ""), spec("a", types.SpecStateFailed, "no"), other,
			spec("c", types.SpecStateSkipped, "", "Feature:LoadBalancer"), spec("d", types.SpecStateSkipped, "needs three nodes\nnot two"),
		}},
		{SpecReports: types.SpecReports{
			spec("a", types.SpecStatePassed, ""), spec("b", types.SpecStateSkipped, "not today"), other,
			spec("c", types.SpecStateSkipped, "", "Feature:LoadBalancer"), spec("d", types.SpecStateSkipped, "needs three nodes\nnot two"),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantRan := [][]string{{"passed of 2", "1", "1"}, {"Services a", fails, passes}, {"Services b", passes, skips}}
	wantLeft := [][]string{{"Services c", "needs load balancers of a cloud"}, {"Services d", "needs three nodes"}}
	if diff := cmp.Diff([][][]string{wantRan, wantLeft}, [][][]string{ran.Rows, left.Rows}); diff != "" {
		t.Error(diff)
	}
}

// A skipped spec without a reason is an error, and so is one that only some proxies were asked.
func TestWhatIsNotExplained(t *testing.T) {
	unknown := types.Report{SpecReports: types.SpecReports{spec("a", types.SpecStateSkipped, "")}}
	if _, _, err := tables([]string{"ours"}, []types.Report{unknown}); err == nil || !strings.Contains(err.Error(), "nobody knows why") {
		t.Errorf("a spec without a reason: %v", err)
	}
	ran := types.Report{SpecReports: types.SpecReports{spec("a", types.SpecStatePassed, "")}}
	if _, _, err := tables([]string{"ours", "theirs"}, []types.Report{ran, {}}); err == nil || !strings.Contains(err.Error(), "theirs was not asked") {
		t.Errorf("a spec that one was not asked: %v", err)
	}
}
