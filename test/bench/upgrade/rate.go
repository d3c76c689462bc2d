package upgrade

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Rates are IPAddresses per second, one value for each round.
type Rates struct {
	Shape   Shape
	Workers int
	// Bare is a loop that creates IPAddresses that it knows beforehand, and does nothing else.
	Bare stats.Sample
	// Run is all of `migrate run`: it connects, reads the cluster, plans, writes, and looks again.
	Run stats.Sample
	// Writing is the part of it in which it writes, as it says itself.
	Writing stats.Sample
}

// contend lets both write the same IPAddresses into copies of a cluster, in alternating order.
func (s *shelf) contend(ctx context.Context, folder string, shape Shape, o Options) (r Rates, err error) {
	r = Rates{Shape: shape, Workers: o.Workers}
	contenders := []func(context.Context, *subject) error{r.bare, r.run}
	for round := range o.Rounds {
		for i := range contenders {
			if err := s.onCopy(ctx, folder, shape, contenders[(round+i)%len(contenders)]); err != nil {
				return r, err
			}
		}
		s.log.Step("round %d of %d: IPAddresses per second: bare %.0f, migrate run %.0f, while writing %.0f", round+1, o.Rounds,
			r.Bare[round], r.Run[round], r.Writing[round])
	}
	return r, nil
}

// onCopy does something to a copy of a cluster.
func (s *shelf) onCopy(ctx context.Context, folder string, shape Shape, do func(context.Context, *subject) error) (err error) {
	c, err := s.open(ctx, folder, shape)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.discard(c)) }()
	return do(ctx, c)
}

// run is our contender.
func (r *Rates) run(ctx context.Context, s *subject) error {
	u, err := s.migrate(ctx, clean, "run", "--qps=0", fmt.Sprintf("--workers=%d", r.Workers))
	if err != nil {
		return err
	}
	writing, err := writingTime(u.said)
	if err != nil {
		return err
	}
	n := float64(s.shape.addresses())
	r.Run, r.Writing = append(r.Run, n/u.Took.Seconds()), append(r.Writing, n/writing.Seconds())
	return nil
}

// lastLine is the last line of a progress: "writing: 100 of 100 after 1.2s, about 0s left".
var lastLine = regexp.MustCompile(`writing: (\d+) of (\d+) after ([0-9a-zµ.]+)`)

// writingTime reads how long `migrate run` wrote.
func writingTime(said string) (time.Duration, error) {
	all := lastLine.FindAllStringSubmatch(said, -1)
	if len(all) == 0 || all[len(all)-1][1] != all[len(all)-1][2] {
		return 0, fmt.Errorf("migrate run does not say how long it wrote:\n%s", said)
	}
	return time.ParseDuration(all[len(all)-1][3])
}

// bare is the other one. It knows what to create before its time begins.
func (r *Rates) bare(ctx context.Context, s *subject) error {
	ips, err := s.ipAddresses(ctx)
	if err != nil {
		return err
	}
	config := s.AdminConfig()
	config.ContentType = runtime.ContentTypeProtobuf // as migrate run has it
	client, err := framework.NetworkingFor(config, framework.V132.NetworkingVersion)
	if err != nil {
		return err
	}
	outcome, err := load.Load{Workers: r.Workers, Count: len(ips)}.Run(ctx, func(ctx context.Context, i int) error {
		_, err := client.IPAddresses().Create(ctx, framework.NewIPAddress(ips[i].address, ips[i].namespace, ips[i].service), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating IPAddresses: %w", err)
	}
	r.Bare = append(r.Bare, outcome.PerSecond())
	return nil
}

// ipAddress is one that has to be created.
type ipAddress struct{ address, namespace, service string }

// ipAddresses are those that the cluster lacks, which is all.
func (s *subject) ipAddresses(ctx context.Context) (all []ipAddress, err error) {
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return s.Client.CoreV1().Services(metav1.NamespaceAll).List(ctx, o)
	}
	err = pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		service := o.(*corev1.Service)
		for _, address := range service.Spec.ClusterIPs {
			all = append(all, ipAddress{address, service.Namespace, service.Name})
		}
		return nil
	})
	if err == nil && len(all) != s.shape.addresses() {
		err = fmt.Errorf("there are %d ClusterIPs instead of %d", len(all), s.shape.addresses())
	}
	return all, err
}

// Usage is what one run of a command took.
type Usage struct {
	Took time.Duration
	// Peak is the most memory that it occupied, in bytes, as seen every few milliseconds.
	Peak int64
	// said is what it printed.
	said string
}

// Exit statuses of the commands.
const (
	clean    = 0
	findings = 1
)

// migrate runs `kubectl clusterip migrate` with API server and etcd, and wants an exit status.
func (s *subject) migrate(ctx context.Context, status int, args ...string) (Usage, error) {
	return s.measure(ctx, status, framework.PluginOptions{Args: slices.Concat([]string{"migrate"}, args, s.EtcdArgs())})
}

// offline is migrate without an API server.
func (s *subject) offline(ctx context.Context, status int, args ...string) (Usage, error) {
	return s.measure(ctx, status, framework.PluginOptions{
		Kubeconfig: framework.NoKubeconfig, Args: slices.Concat([]string{"migrate"}, args, s.EtcdArgs(), []string{"--offline"}),
	})
}

func (s *subject) measure(ctx context.Context, status int, options framework.PluginOptions) (u Usage, err error) {
	// The first run of all builds the command, which is not part of it.
	if _, err := s.RunPlugin(ctx, framework.PluginOptions{Args: []string{"--help"}}); err != nil {
		return u, err
	}
	start := time.Now()
	plugin, err := s.StartPlugin(ctx, options)
	if err != nil {
		return u, err
	}
	if u.Peak, err = watchMemory(ctx, &plugin.Process); err != nil {
		return u, err
	}
	u.Took, u.said = time.Since(start), plugin.LogTail(20)
	if code := plugin.ExitCode(); code != status {
		return u, fmt.Errorf("%q ended with exit code %d instead of %d; the end of what it printed:\n%s", options.Args, code, status, u.said)
	}
	return u, nil
}

// watchMemory returns a process's peak memory when it has ended. The kernel forgets the peak then.
func watchMemory(ctx context.Context, p *framework.Process) (peak int64, err error) {
	const pause = 5 * time.Millisecond
	for {
		if now, err := p.PeakRSS(); err == nil {
			peak = now
		}
		select {
		case <-p.Done():
			return peak, nil
		case <-ctx.Done():
			return peak, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
