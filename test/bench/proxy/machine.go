package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// FullIPVS is what the documentation shows of the modes that serve with IPVS.
func FullIPVS() Options {
	return Options{
		Sizes: []int{1_000, 10_000}, SizesV6: []int{1_000}, Proxies: []string{oursIPVS, theirsIPVS},
		Timeout: 2 * time.Hour, Changes: fewChanges, ChangesLimit: time.Minute,
	}
}

// QuickIPVS is for a look at whether the benchmark itself works.
func QuickIPVS() Options {
	o := FullIPVS()
	o.Sizes, o.SizesV6 = []int{100}, []int{100}
	return o
}

// Files in the folder with the prepared control planes, and in that to which the machine can write.
const (
	optionsFile = "options.json"
	resultFile  = "vm/result.json"
)

// IPVS measures the IPVS modes in an emulated machine. The control planes are filled out here,
// which would take an hour in there, and copied. It leaves them in bin/ipvs.
func IPVS(ctx context.Context, o Options, log *progress.Log) (result OnMachine, err error) {
	root, err := framework.ModuleRoot()
	if err != nil {
		return result, err
	}
	folder := filepath.Join(root, "bin", "ipvs", "planes")
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755), writeJSON(filepath.Join(folder, optionsFile), o)); err != nil {
		return result, err
	}
	for _, s := range o.shapes() {
		b := &bench{Options: o, log: log, family: s.Family, result: &Result{}}
		if err := b.prepare(ctx, s, s.folder(folder)); err != nil {
			return result, err
		}
	}
	if err := enter(ctx, folder); err != nil {
		return result, err
	}
	return result, readJSON(filepath.Join(root, "bin", resultFile), &result)
}

// shapes are those of all sizes.
func (o Options) shapes() (all []Shape) {
	for _, p := range o.plans() {
		for _, n := range p.sizes {
			all = append(all, Shape{Family: p.family, Services: n, Endpoints: p.endpoints})
		}
	}
	return all
}

// folder is where the control plane is.
func (s Shape) folder(in string) string {
	return filepath.Join(in, fmt.Sprintf("%s-%d", s.Family, s.Services))
}

// prepare makes a control plane and stops it.
func (b *bench) prepare(ctx context.Context, s Shape, folder string) (err error) {
	if err := b.open(ctx, b.planeIn(folder)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.plane.Stop()) }()
	if err := b.settle(ctx, plan{family: s.Family, endpoints: s.Endpoints}); err != nil {
		return err
	}
	b.log.Step("%s: creating Services and EndpointSlices", s)
	return b.grow(ctx, s.Services)
}

func (b *bench) planeIn(folder string) framework.Options {
	return framework.Options{ServiceClusterIPRange: serviceRange(b.family).String(), Dir: folder}
}

// enter runs this program once more, in the machine.
func enter(ctx context.Context, folder string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the own program: %w", err)
	}
	agent, err := framework.ProxyAgentProgram()
	if err != nil {
		return err
	}
	// What is built is in the folder plain of the one that is wanted here.
	env := []string{"MODULES=ip_vs", "CLUSTERIP_SLOWNESS=5", "CLUSTERIP_PROGRAMS=" + filepath.Dir(filepath.Dir(agent))}
	return framework.Script(ctx, env, "vm.sh", self, "--only", "ipvs", "--prepared", folder)
}

// Inside measures with what is prepared in a folder. It is what IPVS runs in the machine.
func Inside(ctx context.Context, folder string, log *progress.Log) (result OnMachine, err error) {
	var o Options
	if err := readJSON(filepath.Join(folder, optionsFile), &o); err != nil {
		return result, err
	}
	result.Options = o
	contenders, err := pick(o.Proxies)
	if err != nil {
		return result, err
	}
	for _, s := range o.shapes() {
		b := &bench{Options: o, contenders: contenders, log: log, family: s.Family, result: &result.Result}
		if err := b.inside(ctx, s, s.folder(folder)); err != nil {
			return result, fmt.Errorf("measuring with %s: %w", s, err)
		}
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	result.Versions += ", in an emulated machine with Linux " + strings.TrimSpace(string(release))
	return result, errors.Join(err, writeJSON(filepath.Join("/run", resultFile), result))
}

// inside measures with a copy of a control plane.
func (b *bench) inside(ctx context.Context, s Shape, folder string) (err error) {
	work, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if out, err := exec.CommandContext(ctx, "cp", "-a", folder+"/.", work).CombinedOutput(); err != nil {
		return fmt.Errorf("copying %s: %w: %s", folder, err, out)
	}
	if err := b.open(ctx, b.planeIn(work)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.plane.Stop()) }()
	b.people = population.New(b.plane.Client, s.Family, s.Endpoints)
	if err := b.people.Find(ctx); err != nil {
		return err
	}
	if got := len(b.people.Services()); got != s.Services {
		return fmt.Errorf("there are %d Services, want %d", got, s.Services)
	}
	return b.compare(ctx, s)
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	return os.WriteFile(path, text, 0o600)
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("decoding %s: %w", path, err)
	}
	return nil
}
