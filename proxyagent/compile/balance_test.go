package compile

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// weighing has endpoints of such weights, all ready, the first one on the node here.
func weighing(f model.Family, b *model.Balancing, weights ...uint8) func(*model.Service) {
	return func(s *model.Service) {
		s.Balancing = b
		for i, w := range weights {
			s.Endpoints = append(s.Endpoints, model.Endpoint{
				Port: "http", Protocol: model.TCP, Addr: netip.AddrPortFrom(addrs(f, fmt.Sprintf("10.1.0.%d", i+1))[0], 8080), Node: []string{"here", "there"}[min(i, 1)],
				Ready: true, Serving: true, Weight: w,
			})
		}
	}
}

func TestBalance(t *testing.T) {
	labels := &model.Balancing{Scheduler: model.WeightedRoundRobin, SchedulerFrom: "scheduler", WeightsFrom: "weights"}
	for name, tc := range map[string]struct {
		balancing *model.Balancing
		weights   []uint8
		local     bool
		want      []int // nil: no weights
		scheduler model.Scheduler
	}{
		"nothing asked for":             {nil, []uint8{0, 2}, false, nil, ""},
		"no weights":                    {&model.Balancing{Scheduler: model.RoundRobin}, []uint8{0, 0}, false, nil, model.RoundRobin},
		"all alike":                     {labels, []uint8{4, 4, 4}, false, nil, model.WeightedRoundRobin},
		"none weighs anything":          {labels, []uint8{0, 0}, false, nil, model.WeightedRoundRobin},
		"as they are":                   {labels, []uint8{1, 3, 2}, false, []int{1, 3, 2}, model.WeightedRoundRobin},
		"divided":                       {labels, []uint8{50, 100, 0}, false, []int{1, 2, 0}, model.WeightedRoundRobin},
		"one weighs nothing":            {labels, []uint8{7, 0, 7}, false, []int{1, 0, 1}, model.WeightedRoundRobin},
		"of endpoints on the node only": {labels, []uint8{4, 1, 2}, true, nil, model.WeightedRoundRobin},
		"malformed":                     {&model.Balancing{Ignored: []model.DegradationReason{model.SchedulerInvalid}}, []uint8{0, 0}, false, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, f model.Family) {
				s := aService(f, "web", 1, "10.96.0.1", weighing(f, tc.balancing, tc.weights...), func(s *model.Service) { s.InternalLocal = tc.local })
				st := stateOf(s)
				st.Node.Name = "here"
				for _, p := range planOf(model.Settings{Family: f}, st).Ports {
					wantEqual(t, "scheduler", tc.scheduler, p.Scheduler)
					wantEqual(t, "some weights", tc.want != nil, len(p.Weights) > 0)
					for i, w := range tc.want {
						wantEqual(t, fmt.Sprint("weight ", i), w, p.Weights.Of(s.Endpoints[i].Addr))
						if _, said := p.Weights[s.Endpoints[i].Addr]; said && w == 1 {
							t.Errorf("weight %d is said although it is 1", i)
						}
					}
				}
			})
		})
	}
}

// TestOneOfTwoWeightsCounts has one address in two slices, which say different zones, in any order.
func TestOneOfTwoWeightsCounts(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		var plans []model.Plan
		for _, weights := range [][2]uint8{{2, 5}, {5, 2}} {
			s := aService(f, "web", 1, "10.96.0.1", weighing(f, &model.Balancing{WeightsFrom: "weights"}, weights[0], 1))
			again := s.Endpoints[0]
			again.Weight = weights[1]
			s.Endpoints = append(s.Endpoints, again)
			plans = append(plans, planOf(model.Settings{Family: f}, stateOf(s)))
		}
		wantEqual(t, "the plan", plans[0], plans[1])
	})
}

// TestDegraded has what cannot be read reported for each port, as long as the Service is served so.
func TestDegraded(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		bad := &model.Balancing{Ignored: []model.DegradationReason{model.WeightsInvalid, model.SchedulerInvalid}}
		s := aService(f, "web", 1, "10.96.0.1", weighing(f, bad, 1))
		c := compilerOf(model.Settings{Family: f}, stateOf(s, aService(f, "other", 1, "10.96.0.2")))
		port := model.PortName{Service: s.Name, Port: "http", Protocol: model.TCP}
		wantEqual(t, "degradations", []model.Degradation{{Port: port, Reason: model.WeightsInvalid}, {Port: port, Reason: model.SchedulerInvalid}}, c.Degraded())
		text := c.Explain(s.Name)
		for _, want := range []string{model.WeightsInvalid.String(), model.SchedulerInvalid.String()} {
			if !strings.Contains(text, want) {
				t.Errorf("not said: %s\n%s", want, text)
			}
		}
		s.Balancing = nil
		c.Apply(model.Changes{Services: map[model.ServiceName]*model.Service{s.Name: &s}})
		wantEqual(t, "degradations once it can be read", 0, len(c.Degraded()))
	})
}

func TestExplainBalancing(t *testing.T) {
	b := &model.Balancing{Scheduler: model.MaglevHashing, SchedulerFrom: "s/cheduler", WeightsFrom: "w/eights", ByCores: true}
	s := aService(model.IPv4, "web", 1, "10.96.0.1", weighing(model.IPv4, b, 4, 8))
	text := compilerOf(model.Settings{Family: model.IPv4}, stateOf(s)).Explain(s.Name)
	for _, want := range []string{
		"scheduler mh, as the annotation s/cheduler asks", "by the cores of their nodes, as the annotation w/eights asks", "weight 4\n", "weight 8\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not said: %s\n%s", want, text)
		}
	}
}
