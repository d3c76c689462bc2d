package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Chart is a drawing of lines. Both axes are logarithmic, so that all numbers are positive.
type Chart struct {
	// File is the name of the drawing, which ends in .svg.
	File string
	// Title says what is drawn, X and Y what the axes are, with units.
	Title, X, Y string
	Lines       []Line
}

// Line is one in a chart. Those of the same colour belong together.
type Line struct {
	Name   string
	Color  int
	Dashed bool
	// Points are pairs of X and Y.
	Points [][2]float64
}

// Draw draws charts into a folder, which it makes.
func Draw(ctx context.Context, folder string, charts []Chart) error {
	programs, err := framework.Assets("plot")
	if err != nil {
		return err
	}
	text, err := json.Marshal(charts)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the folder of the charts: %w", err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "plot"), folder)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("drawing charts: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
