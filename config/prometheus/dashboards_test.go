package prometheus_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestDashboards has promtool parse the dashboards' expressions, and looks for their metrics.
func TestDashboards(t *testing.T) {
	files, err := filepath.Glob("../grafana/*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			UID    string
			Panels []struct {
				Title, Description string
				Targets            []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(content, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if board.UID == "" || len(board.Panels) == 0 {
			t.Errorf("%s has no panels, or no UID by which links find it", file)
		}
		for _, p := range board.Panels {
			if p.Description == "" || len(p.Targets) == 0 {
				t.Errorf("%s, %s: says nothing, or shows nothing", file, p.Title)
			}
			for _, target := range p.Targets {
				promtool(t, "--experimental", "promql", "format", target.Expr)
				expectServed(t, p.Title, target.Expr)
			}
		}
	}
}
