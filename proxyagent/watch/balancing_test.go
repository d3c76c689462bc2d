package watch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const (
	scheduler  = v1alpha1.AnnotationScheduler
	kubeRouter = v1alpha1.AnnotationKubeRouterScheduler
	byWeight   = v1alpha1.AnnotationEndpointWeights
)

// annotated has a Service say what stands in pairs.
func annotated(pairs ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Annotations = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			s.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func TestConvertBalancing(t *testing.T) {
	ignoring := func(reasons ...model.DegradationReason) *model.Balancing { return &model.Balancing{Ignored: reasons} }
	many := strings.Repeat("a=b:1,", maxWeightEntries-1) + "a=b:1"
	for name, tc := range map[string]struct {
		annotations []string
		want        *model.Balancing
		malformed   int
	}{
		"nothing":                   {nil, nil, 0},
		"of others":                 {[]string{"example.com/scheduler", "rr"}, nil, 0},
		"a scheduler":               {[]string{scheduler, "rr"}, &model.Balancing{Scheduler: model.RoundRobin, SchedulerFrom: scheduler}, 0},
		"that of kube-router":       {[]string{kubeRouter, "sh"}, &model.Balancing{Scheduler: model.SourceHashing, SchedulerFrom: kubeRouter}, 0},
		"both":                      {[]string{kubeRouter, "sh", scheduler, "lc"}, &model.Balancing{Scheduler: model.LeastConnection, SchedulerFrom: scheduler}, 0},
		"ours is malformed":         {[]string{kubeRouter, "sh", scheduler, "RR"}, ignoring(model.SchedulerInvalid), 1},
		"an empty one":              {[]string{scheduler, ""}, ignoring(model.SchedulerInvalid), 1},
		"a rule":                    {[]string{scheduler, "rr; flush ruleset"}, ignoring(model.SchedulerInvalid), 1},
		"cores":                     {[]string{byWeight, " cores "}, &model.Balancing{WeightsFrom: byWeight, ByCores: true}, 0},
		"labels":                    {[]string{byWeight, "topology.kubernetes.io/zone=a:3, disk=:0"}, &model.Balancing{WeightsFrom: byWeight}, 0},
		"the largest weight":        {[]string{byWeight, "a=b:100"}, &model.Balancing{WeightsFrom: byWeight}, 0},
		"a weight that is too much": {[]string{byWeight, "a=b:101"}, ignoring(model.WeightsInvalid), 1},
		"one below zero":            {[]string{byWeight, "a=b:-1"}, ignoring(model.WeightsInvalid), 1},
		"no weight":                 {[]string{byWeight, "a=b"}, ignoring(model.WeightsInvalid), 1},
		"no value":                  {[]string{byWeight, "a:1"}, ignoring(model.WeightsInvalid), 1},
		"no label":                  {[]string{byWeight, "=b:1"}, ignoring(model.WeightsInvalid), 1},
		"one of two is malformed":   {[]string{byWeight, "a=b:1,a=ö:2"}, ignoring(model.WeightsInvalid), 1},
		"nothing but a comma":       {[]string{byWeight, ","}, ignoring(model.WeightsInvalid), 1},
		"empty weights":             {[]string{byWeight, ""}, ignoring(model.WeightsInvalid), 1},
		"many entries":              {[]string{byWeight, many}, &model.Balancing{WeightsFrom: byWeight}, 0},
		"too many entries":          {[]string{byWeight, many + ",a=b:1"}, ignoring(model.WeightsInvalid), 1},
		"both are malformed":        {[]string{byWeight, "x", scheduler, "x"}, ignoring(model.SchedulerInvalid, model.WeightsInvalid), 2},
		"both good":                 {[]string{byWeight, "cores", scheduler, "mh"}, &model.Balancing{Scheduler: model.MaglevHashing, SchedulerFrom: scheduler, WeightsFrom: byWeight, ByCores: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, bad := convertService(newService("web", "10.96.0.1", annotated(tc.annotations...)))
			if diff := cmp.Diff(tc.want, got.model.Balancing); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if bad.count != tc.malformed {
				t.Errorf("malformed: %q", &bad)
			}
		})
	}
}

func TestWeights(t *testing.T) {
	node := func(cpu string, labels ...string) *peer {
		n := newNode("there")
		if cpu != "" {
			n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		}
		for _, l := range labels {
			n.Labels[l] = "yes"
		}
		p, _ := convertPeer(n)
		return p
	}
	const zone = "topology.kubernetes.io/zone="
	for name, tc := range map[string]struct {
		text, zone string
		on         *peer
		want       uint8
		needPeers  bool
	}{
		"the zone of the slice":           {zone + "a:3," + zone + "b:0", "b", nil, 0, false},
		"another zone":                    {zone + "a:3", "c", nil, 1, false},
		"no zone":                         {zone + "a:3", "", nil, 1, false},
		"the slice knows better":          {zone + "a:3,x=y:2", "c", node("4"), 1, true},
		"the node knows":                  {zone + "a:3,x=y:2", "", node("4"), 3, true},
		"the first entry that fits":       {"x=yes:5," + zone + "a:3", "a", node("4", "x"), 5, true},
		"a later one":                     {"x=no:5,y=yes:7", "a", node("4", "x", "y"), 7, true},
		"a label without value":           {"x=:5", "a", node("4"), 1, true},
		"an unknown node":                 {"x=yes:5", "a", nil, 1, true},
		"cores":                           {"cores", "a", node("4"), 4, true},
		"a part of a core, rounded":       {"cores", "a", node("1500m"), 2, true},
		"less than half a core":           {"cores", "a", node("100m"), 1, true},
		"more cores than weights":         {"cores", "a", node("384"), 100, true},
		"more than any node has":          {"cores", "a", node("9223372036854775807"), 100, true},
		"a node that does not say":        {"cores", "a", node(""), 1, true},
		"cores of a node that is unknown": {"cores", "a", nil, 1, true},
	} {
		w := parseWeights(tc.text)
		if got := w.of(wordOf(tc.zone), tc.on); got != tc.want || w.needPeers() != tc.needPeers {
			t.Errorf("%s: weight %d, asks for Nodes: %t", name, got, w.needPeers())
		}
	}
}

// FuzzWeights has whatever is read be one that could be written again, and mean the same.
func FuzzWeights(f *testing.F) {
	for _, seed := range []string{"cores", "a=b:1", "topology.kubernetes.io/zone=a:3,topology.kubernetes.io/zone=b:1", "a=:0", "a=b:100", ",", "a=b:1:2", "a=b=c:1", "\x00=\n:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, bad := convertService(newService("web", "10.96.0.1", annotated(byWeight, text, scheduler, text)))
		checkMalformed(t, &bad)
		b := s.model.Balancing
		if _, known := model.ParseScheduler(text); known != (b.SchedulerFrom != "") || known && string(b.Scheduler) != text || !known && b.Scheduler != "" {
			t.Errorf("%q is read as %q", text, b.Scheduler)
		}
		w := s.weights
		if (w == nil) != (parseWeights(text) == nil) || w == nil {
			return
		}
		if len(w.entries) > maxWeightEntries || w.cores == (len(w.entries) > 0) {
			t.Errorf("%q is read as %v", text, w)
		}
		for _, e := range w.entries {
			if e.weight > model.MaxWeight || !strings.Contains(text, e.label.Value()+"="+e.value.Value()+":") {
				t.Errorf("%q is read as %v", text, w)
			}
		}
	})
}
