package watch

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// maxWeightEntries limits the annotation with weights: each entry is compared with each endpoint.
const maxWeightEntries = 64

// weights are what a Service says about the weights of its endpoints; nil is nothing.
type weights struct {
	cores   bool
	entries []weightEntry
}

// weightEntry is the weight of endpoints on nodes with a label.
type weightEntry struct {
	label, value word
	weight       uint8
}

// convertBalancing reads the annotations about schedulers and weights; nil for a Service without.
// An unreadable annotation has no effect at all: part of it could be the opposite of what it meant.
func convertBalancing(in *corev1.Service, bad *malformed) (*model.Balancing, *weights) {
	var out model.Balancing
	for _, from := range []string{v1alpha1.AnnotationScheduler, v1alpha1.AnnotationKubeRouterScheduler} {
		text, says := in.Annotations[from]
		if !says {
			continue
		}
		if scheduler, known := model.ParseScheduler(text); known {
			out.Scheduler, out.SchedulerFrom = scheduler, from
		} else {
			out.Ignored = append(out.Ignored, model.SchedulerInvalid)
			bad.add("scheduler", text)
		}
		break
	}
	var w *weights
	if text, says := in.Annotations[v1alpha1.AnnotationEndpointWeights]; says {
		if w = parseWeights(text); w == nil {
			out.Ignored = append(out.Ignored, model.WeightsInvalid)
			bad.add("endpoint weights", text)
		} else {
			out.WeightsFrom, out.ByCores = v1alpha1.AnnotationEndpointWeights, w.cores
		}
	}
	if out.Scheduler == "" && w == nil && out.Ignored == nil {
		return nil, nil
	}
	return &out, w
}

// parseWeights returns nil for what cannot be read.
func parseWeights(text string) *weights {
	if strings.TrimSpace(text) == v1alpha1.WeightsByCores {
		return &weights{cores: true}
	}
	if strings.Count(text, ",") >= maxWeightEntries {
		return nil
	}
	var w weights
	for entry := range strings.SplitSeq(text, ",") {
		e, ok := parseWeightEntry(strings.TrimSpace(entry))
		if !ok {
			return nil
		}
		w.entries = append(w.entries, e)
	}
	return &w
}

// parseWeightEntry reads label=value:weight. Labels and their values have neither = nor a colon.
func parseWeightEntry(entry string) (weightEntry, bool) {
	selector, number, colon := strings.Cut(entry, ":")
	label, value, equals := strings.Cut(selector, "=")
	weight, err := strconv.ParseUint(number, 10, 8)
	if !colon || !equals || err != nil || weight > model.MaxWeight ||
		len(validation.IsQualifiedName(label)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
		return weightEntry{}, false
	}
	return weightEntry{wordOf(label), wordOf(value), uint8(weight)}, true
}

var zoneLabel = wordOf(corev1.LabelTopologyZone)

// needPeers reports whether weights depend on more than the zone that an EndpointSlice says.
func (w *weights) needPeers() bool {
	if w == nil {
		return false
	}
	for _, e := range w.entries {
		if e.label != zoneLabel {
			return true
		}
	}
	return w.cores
}

// of returns the weight of an endpoint in a zone, on a node (nil: unknown), 1 if nothing gives one.
func (w *weights) of(zone word, on *peer) uint8 {
	switch {
	case w == nil, w.cores && on == nil:
		return 1
	case w.cores:
		return on.cores
	}
	for _, e := range w.entries {
		value, has := on.label(e.label)
		if e.label == zoneLabel && zone.Value() != "" {
			value, has = zone, true
		}
		if has && value == e.value {
			return e.weight
		}
	}
	return 1
}
