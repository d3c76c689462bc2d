// Command plot reads line charts as JSON from stdin, and writes each as an SVG file into a folder.
//
//	plot docs/reference/benchmarks < charts.json
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart has the fields of Chart in test/bench/report. Both axes are logarithmic.
type chart struct {
	File, Title, X, Y string
	Lines             []struct {
		Name   string
		Color  int
		Dashed bool
		Points [][2]float64
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: plot FOLDER < charts.json")
	}
	var charts []chart
	if err := json.NewDecoder(os.Stdin).Decode(&charts); err != nil {
		return fmt.Errorf("reading charts: %w", err)
	}
	for _, c := range charts {
		p, err := c.plot()
		if err == nil {
			err = p.Save(16*vg.Centimeter, 9*vg.Centimeter, filepath.Join(os.Args[1], c.File))
		}
		if err != nil {
			return fmt.Errorf("drawing %s: %w", c.File, err)
		}
	}
	return nil
}

func (c chart) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{}, ticks{}
	p.Legend.Top, p.Legend.Left = true, true // above the lines, which leave room for it
	defer func() { p.Y.Max *= 4 }()
	p.Legend.TextStyle.Font.Size, p.Legend.Padding = 8, vg.Millimeter
	p.Add(plotter.NewGrid())
	for _, l := range c.Lines {
		points := make(plotter.XYs, len(l.Points))
		for i, at := range l.Points {
			points[i] = plotter.XY{X: at[0], Y: at[1]}
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Name, err)
		}
		line.Color, marks.Color, marks.Shape = plotutil.Color(l.Color), plotutil.Color(l.Color), draw.CircleGlyph{}
		line.Width = vg.Points(1.5)
		if l.Dashed {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(line, marks)
		p.Legend.Add(l.Name, line, marks)
	}
	return p, nil
}

// ticks are at 1, 2 and 5 times each power of ten, with plain numbers.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(least, most float64) (all []plot.Tick) {
	for power := math.Floor(math.Log10(least)); power <= math.Log10(most); power++ {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * math.Pow(10, power); v >= least && v <= most {
				all = append(all, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)})
			}
		}
	}
	return all
}
