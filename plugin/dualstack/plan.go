package dualstack

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

const (
	planVersion = "dualstack.clusterip-operator.io/v1alpha1"
	planKind    = "DualStackPlan"
)

// Plan is which Services gain a family.
type Plan struct {
	batch.Head `json:",inline"`
	Services   []Item `json:"services"`
	LeftOut    []Item `json:"leftOut"`
}

// Item is about one Service.
type Item struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Gains is the family that the Service lacks.
	Gains corev1.IPFamily `json:"gains"`
	// Reason says why the Service is left as it is.
	Reason string `json:"reason,omitempty"`
}

// String is namespace/name.
func (i Item) String() string { return i.Namespace + "/" + i.Name }

// candidate is a Service, and where its endpoints can be reached.
type candidate struct {
	service *corev1.Service
	has     reach
}

// newPlan decides about Services.
func newPlan(cluster types.UID, all []candidate) Plan {
	p := Plan{Head: batch.Head{APIVersion: planVersion, Kind: planKind, Cluster: cluster}, Services: []Item{}, LeftOut: []Item{}} // programs find lists
	for _, c := range all {
		decision, reason := decide(c.service, c.has)
		if decision != gains && decision != left {
			continue
		}
		i := Item{Namespace: c.service.Namespace, Name: c.service.Name, UID: c.service.UID, Gains: missing(c.service), Reason: reason}
		if decision == gains {
			p.Services = append(p.Services, i)
		} else {
			p.LeftOut = append(p.LeftOut, i)
		}
	}
	sort(p.Services)
	sort(p.LeftOut)
	return p
}

func sort(items []Item) {
	slices.SortFunc(items, func(a, b Item) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
}

// LoadPlan reads a plan that was written to a file.
func LoadPlan(file string) (p Plan, err error) {
	if err := batch.Load(file, batch.Head{APIVersion: planVersion, Kind: planKind}, &p); err != nil {
		return Plan{}, err
	}
	for n, i := range p.Services {
		if i.Namespace == "" || i.Name == "" || i.UID == "" {
			return Plan{}, fmt.Errorf("%s: Service %d needs a namespace, a name and a uid", file, n+1)
		}
	}
	return p, nil
}
