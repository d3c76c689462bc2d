package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
)

// mostOfText is how many bytes are kept of what a user wrote: an annotation, a message.
const mostOfText = 1024

// object is an object as it is kept: without who wrote which field, and of labels and annotations
// with those alone that addresses depend on, so never with what `kubectl apply` was given. chosen
// are further labels, by which policies select.
func object(o any, chosen map[string]bool) (map[string]any, error) {
	decoded, err := decodedOf(o)
	if err != nil {
		return nil, err
	}
	out, _ := decoded.(map[string]any)
	meta, _ := out["metadata"].(map[string]any)
	only(meta, metadata)
	keep(meta, "labels", chosen)
	keep(meta, "annotations", nil)
	return out, nil
}

// kept are the labels and annotations that addresses depend on: those of this project by their
// keys, for a tenant may write others in its domain; of Kubernetes by their domains.
var kept = []string{
	v1alpha1.LabelBand, v1alpha1.LabelPurpose, v1alpha1.LabelReserve, v1alpha1.AnnotationLastService, v1alpha1.AnnotationReleased,
	v1alpha1.AnnotationReservation, v1alpha1.AnnotationServiceCIDR, v1alpha1.AnnotationServiceUID, v1alpha1.AnnotationAdditionalFrom,
	v1alpha1.AnnotationScheduler, v1alpha1.AnnotationFormerIPs, v1alpha1.AnnotationCreatedFor, v1alpha1.AnnotationUsage,
	corev1.LabelMetadataName, "ipaddress.kubernetes.io", "service.kubernetes.io",
}

// sized are annotations of which only the size is kept: parts of a spec, labels of nodes, the name
// of another Service.
var sized = []string{v1alpha1.AnnotationRenumbering, v1alpha1.AnnotationEndpointWeights, v1alpha1.AnnotationSecondOf, v1alpha1.AnnotationHandover}

// keep leaves of labels or annotations what matters, and cuts it.
func keep(meta map[string]any, which string, chosen map[string]bool) {
	all, _ := meta[which].(map[string]any)
	out := map[string]any{}
	for key, value := range all {
		text, _ := value.(string)
		domain, _, _ := strings.Cut(key, "/")
		switch {
		case slices.Contains(sized, key):
			out[key] = fmt.Sprintf("%d bytes", len(text))
		case slices.Contains(kept, key), slices.Contains(kept, domain), chosen[key]:
			out[key] = text
		}
	}
	if len(out) == 0 {
		delete(meta, which)
		return
	}
	meta[which] = out
}

// fields are the names of fields below a field that is kept; empty: all of it.
type fields map[string]fields

// only leaves the named fields.
func only(o map[string]any, kept fields) {
	for key, value := range o {
		below, ok := kept[key]
		if !ok {
			delete(o, key)
			continue
		}
		if len(below) == 0 {
			continue
		}
		switch inner := value.(type) {
		case map[string]any:
			only(inner, below)
		case []any:
			for _, one := range inner {
				if one, ok := one.(map[string]any); ok {
					only(one, below)
				}
			}
		}
	}
}

// metadata is what is kept of the metadata of all objects.
var metadata = fields{
	"namespace": nil, "name": nil, "uid": nil, "resourceVersion": nil, "generation": nil, "creationTimestamp": nil, "deletionTimestamp": nil,
	"finalizers": nil, "labels": nil, "annotations": nil,
}

// mostOfList is how many entries are kept of a list or a map that a user wrote.
const mostOfList = 64

// shortened cuts a text between two words: no pseudonym would be found of a name that is cut in
// two.
func shortened(text string) string {
	if len(text) <= mostOfText {
		return text
	}
	text = text[:mostOfText-len(left)]
	return text[:strings.LastIndexAny(text, " \t\n\"',;()[]{}")+1] + left
}

// left stands for what is left out of a text.
const left = "..."

// bounded cuts what a user may make as large as an object may be.
func bounded(v any) any {
	switch v := v.(type) {
	case string:
		return shortened(v)
	case []any:
		if more := len(v) - mostOfList; more > 0 {
			v = append(v[:mostOfList:mostOfList], fmt.Sprintf("and %d more", more))
		}
		for i := range v {
			v[i] = bounded(v[i])
		}
		return v
	case map[string]any:
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if v[key] = bounded(v[key]); i >= mostOfList {
				delete(v, key)
			}
		}
	}
	return v
}

// ofServices is what is kept of a Service: what its addresses depend on, and how they are served.
var ofServices = fields{
	"metadata": nil,
	"spec": {
		"type": nil, "clusterIPs": nil, "externalIPs": nil, "loadBalancerIP": nil, "loadBalancerClass": nil, "ipFamilies": nil, "ipFamilyPolicy": nil,
		"externalTrafficPolicy": nil, "internalTrafficPolicy": nil, "trafficDistribution": nil, "sessionAffinity": nil, "healthCheckNodePort": nil,
		"ports": {"protocol": nil, "port": nil, "nodePort": nil},
	},
	"status": {"loadBalancer": nil},
}

// ofIPAddresses is what is kept of an IPAddress.
var ofIPAddresses = fields{"metadata": nil, "spec": nil}

// ofNamespaces is what is kept of a namespace.
var ofNamespaces = fields{"metadata": nil, "status": {"phase": nil}}

// withoutBundles replaces the authorities of webhooks by when they expire.
func withoutBundles(o map[string]any, bundles []check.Bundle) {
	hooks, _ := o["webhooks"].([]any)
	for _, h := range hooks {
		hook, _ := h.(map[string]any)
		config, _ := hook["clientConfig"].(map[string]any)
		if config == nil || config["caBundle"] == nil {
			continue
		}
		delete(config, "caBundle")
		for _, b := range bundles {
			if b.Webhook == hook["name"] {
				config["trustedUntil"] = check.TrustedUntil(b.Bundle)
			}
		}
	}
}
