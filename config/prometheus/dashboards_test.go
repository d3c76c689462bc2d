package prometheus_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	selected = regexp.MustCompile(`\b(?:clusterip_(?:operator|proxyagent)|process)_\w+(\{cluster=~"\$cluster")?`)
	grouped  = regexp.MustCompile(`\b(?:sum|min|max|avg|count|group)\b *(by \(cluster[,)])?`)
)

// keepsCluster reports whether an expression selects by the variable cluster, and keeps that label
// in whatever it sums up.
func keepsCluster(expr string) bool {
	for _, match := range append(selected.FindAllStringSubmatch(expr, -1), grouped.FindAllStringSubmatch(expr, -1)...) {
		if match[1] == "" {
			return false
		}
	}
	return true
}

// TestDashboards has promtool parse the dashboards' expressions, looks for their metrics, and wants
// one cluster among several to be chosen and told.
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
			UID        string
			Templating struct {
				List []struct{ Name, Type string }
			}
			Panels []struct {
				Title, Description string
				Targets            []struct{ Expr, LegendFormat string }
			}
		}
		if err := json.Unmarshal(content, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if board.UID == "" || len(board.Panels) == 0 {
			t.Errorf("%s has no panels, or no UID by which links find it", file)
		}
		if names := fmt.Sprint(board.Templating.List); !strings.Contains(names, "{cluster query}") {
			t.Errorf("%s has no variable cluster: %s", file, names)
		}
		for _, p := range board.Panels {
			if p.Description == "" || len(p.Targets) == 0 {
				t.Errorf("%s, %s: says nothing, or shows nothing", file, p.Title)
			}
			for _, target := range p.Targets {
				promtool(t, "--experimental", "promql", "format", target.Expr)
				expectServed(t, p.Title, target.Expr)
				if !keepsCluster(target.Expr) || !strings.HasPrefix(target.LegendFormat, "{{cluster}} ") {
					t.Errorf("%s, %s: mixes clusters: %s (%s)", file, p.Title, target.Expr, target.LegendFormat)
				}
			}
		}
	}
}
