package main

import (
	"context"
	"path/filepath"

	"github.com/clusterip-operator/clusterip-operator/test/bench/allocation"
	"github.com/clusterip-operator/clusterip-operator/test/bench/micro"
	"github.com/clusterip-operator/clusterip-operator/test/bench/operation"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy"
	"github.com/clusterip-operator/clusterip-operator/test/bench/report"
	"github.com/clusterip-operator/clusterip-operator/test/bench/steering"
	"github.com/clusterip-operator/clusterip-operator/test/bench/upgrade"
)

// part is something to measure. Its name is also that of its section in the document.
type part struct {
	name string
	run  func(context.Context, command, *progress.Log) (report.Section, error)
}

var parts = []part{
	{"allocator", showAllocator},
	{"allocations", runAllocations},
	{"manager", runManager},
	{"upgrade", runUpgrade},
	{"proxy", runProxy},
	{"steering", runSteering},
}

func names() []string {
	var out []string
	for _, p := range parts {
		out = append(out, p.name)
	}
	return out
}

// showAllocator measures nothing: hack/bench.sh has, and kept what go test printed.
func showAllocator(_ context.Context, c command, _ *progress.Log) (report.Section, error) {
	times, err := micro.ReadFiles("Allocate", filepath.Join(c.kept, "ours.txt"), filepath.Join(c.kept, "upstream.txt"))
	if err != nil {
		return report.Section{}, err
	}
	memory, err := micro.ReadFiles("Memory", filepath.Join(c.kept, "ours.txt"))
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{
		Intro:  intro("hack/bench.sh", ""),
		Tables: []report.Table{times.Times(), memory.Memory()},
		Notes:  times.Notes(),
	}, nil
}

func runAllocations(ctx context.Context, c command, log *progress.Log) (report.Section, error) {
	result, err := allocation.Run(ctx, c.allocations, log)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{Intro: intro(c.String(), result.Versions), Tables: result.Tables(), Notes: result.Notes()}, nil
}

func runManager(ctx context.Context, c command, log *progress.Log) (report.Section, error) {
	result, err := operation.Run(ctx, c.manager, log)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{Intro: intro(c.String(), result.Versions), Tables: result.Tables(), Notes: result.Notes()}, nil
}

func runUpgrade(ctx context.Context, c command, log *progress.Log) (report.Section, error) {
	result, err := upgrade.Run(ctx, c.upgrade, log)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{Intro: intro(c.String(), result.Versions), Tables: result.Tables(), Notes: result.Notes()}, nil
}

func runProxy(ctx context.Context, c command, log *progress.Log) (report.Section, error) {
	result, err := proxy.Run(ctx, c.proxy, log)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{Intro: intro(c.String(), result.Versions), Tables: result.Tables(), Notes: result.Notes()}, nil
}

func runSteering(ctx context.Context, c command, log *progress.Log) (report.Section, error) {
	result, err := steering.Run(ctx, c.steering, log)
	if err != nil {
		return report.Section{}, err
	}
	return report.Section{Intro: intro(c.String(), result.Versions), Tables: result.Tables(), Notes: result.Notes()}, nil
}
