package reserve

import (
	"bytes"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// document is a policy as it is kept in a repository: what an admin wants, and nothing that an API
// server adds, so that it is the same whether the policy has been applied or not.
type document struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata                       `json:"metadata"`
	Spec            v1alpha1.ServiceCIDRPolicySpec `json:"spec"`
}

type metadata struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

// list is what -o json and templates print; kubectl applies it as it is.
type list struct {
	metav1.TypeMeta `json:",inline"`
	Items           []document `json:"items"`
}

func documents(policies []*v1alpha1.ServiceCIDRPolicy) list {
	l := list{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: []document{}} // programs find a list
	for _, o := range policies {
		d := document{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ServiceCIDRPolicy"},
			Metadata: metadata{Name: o.Name, Labels: map[string]string{v1alpha1.LabelReserve: o.Labels[v1alpha1.LabelReserve]}}, Spec: o.Spec,
		}
		if d.Spec.Allocation == v1alpha1.AllocationAutomatic { // the defaults of the API server
			d.Spec.Allocation = ""
		}
		if d.Spec.Enforcement == v1alpha1.EnforcementAPIServer {
			d.Spec.Enforcement = ""
		}
		if d.Spec.OnFull == v1alpha1.OnFullFallback {
			d.Spec.OnFull = ""
		}
		l.Items = append(l.Items, d)
	}
	return l
}

// put prints the policies, or writes them into the file that output names: YAML as one document for
// each, all else as a list.
func put(a *cli.Session, output string, policies []*v1alpha1.ServiceCIDRPolicy) error {
	l := documents(policies)
	format := output
	if cli.PlanFile(output) {
		format = batch.FormatOf(output)
	}
	var text bytes.Buffer
	if err := encode(&text, l, format); err != nil {
		return err
	}
	if !cli.PlanFile(output) {
		_, err := text.WriteTo(a.Out)
		return err
	}
	err := batch.Replace(output, func(w io.Writer) error {
		_, err := text.WriteTo(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the policies: %w", err)
	}
	return nil
}

func encode(w io.Writer, l list, format string) error {
	if format != "yaml" {
		return cli.Encode(w, l, format)
	}
	for _, d := range l.Items {
		cli.Write(w, "---\n")
		if err := batch.Encode(w, d, format); err != nil {
			return err
		}
	}
	return nil
}
