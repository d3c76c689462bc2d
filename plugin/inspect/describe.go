package inspect

import (
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/admission"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/internal/wording"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// Describe prints an answer for people.
func (o Answer) Describe(w io.Writer, now time.Time) {
	if o.Partial != "" {
		o.describePartial(w)
		return
	}
	for _, a := range o.Addresses {
		describeAddress(w, a, now)
	}
	for _, r := range o.Refusals {
		describeRefusal(w, r, now)
	}
	if o.ByAPIServer != nil {
		describeByAPIServer(w, o)
	}
	if o.IfCreated != nil {
		switch {
		case len(o.Addresses) > 0:
			cli.Write(w, "\nIf it were created now:\n")
		case o.Missing:
			cli.Write(w, "There is no such Service. If it were created now:\n")
		}
		describeExplanation(w, *o.IfCreated, o.Addresses)
	}
	if o.Range != nil {
		describeRange(w, *o.Range)
	}
	if o.Policy != nil {
		describePolicy(w, *o.Policy)
	}
	if o.NodePort != nil {
		o.NodePort.describe(w, false)
	}
}

// describeByAPIServer says what API servers do about Service default/kubernetes.
func describeByAPIServer(w io.Writer, o Answer) {
	first := o.ByAPIServer.Address
	if o.Missing {
		cli.Write(w, "There is no such Service. ")
	}
	cli.Write(w, "API servers create it themselves, within ten seconds of its deletion, with %s, the first address of their --service-cluster-ip-range: no webhook and no policy is asked.\n", first)
	if len(o.Addresses) > 0 && o.Addresses[0].Address != first {
		cli.Write(w, "  It has another address now: it was moved, or API servers were started with another range before.\n")
	}
	holders := slices.DeleteFunc(slices.Clone(o.ByAPIServer.Services), func(name string) bool { return name == "default/kubernetes" })
	switch ip := o.ByAPIServer.IPAddress; {
	case len(holders) > 0:
		cli.Write(w, "  problem: Service %s has that address: until it is deleted, API servers cannot create the Service\n", strings.Join(holders, ", "))
	case ip != nil && upstream.Service(ip) != (types.NamespacedName{Namespace: "default", Name: "kubernetes"}):
		cli.Write(w, "  problem: %s has that address: until it is deleted, API servers cannot create the Service\n", o.ByAPIServer.Parent)
	}
}

// describeRefusal tells of the Services of one namespace that were refused for one reason. The
// texts are whatever a client that may write the status has stored there.
func describeRefusal(w io.Writer, r pastRefusal, now time.Time) {
	ago := func(t metav1.MicroTime) string { return duration.HumanDuration(now.Sub(t.Time)) }
	service, why := plain.Text(r.Service), plain.Text(r.Message)
	if r.Count > 1 && r.First != nil {
		namespace, _, _ := strings.Cut(service, "/")
		cli.Write(w, "%d requests of namespace %s were refused in the last %s, the last one for %s %s ago, by ServiceCIDRPolicy %q: %s\n",
			r.Count, namespace, ago(*r.First), service, ago(r.Time), r.Policy, why)
		return
	}
	cli.Write(w, "%s was refused %s ago by ServiceCIDRPolicy %q: %s\n", service, ago(r.Time), r.Policy, why)
}

func describeAddress(w io.Writer, a view.Address, now time.Time) {
	cli.Write(w, "%s is %s\n", a.Address, stateOf(a))
	if len(a.ServiceCIDRs) > 0 {
		cli.Write(w, "  it lies in the %s band of ServiceCIDR %s\n", a.Band, strings.Join(a.ServiceCIDRs, ", "))
	} else {
		cli.Write(w, "  no ServiceCIDR offers it\n")
	}
	if a.IPAddress != nil {
		cli.Write(w, "  %s, created %s ago\n", upstream.Describe(a.IPAddress), duration.HumanDuration(now.Sub(a.IPAddress.CreationTimestamp.Time)))
	}
	switch {
	case a.Reservation != "" && a.ReservationFor != "":
		cli.Write(w, "  the reservation %q of ServiceCIDRPolicy %q keeps it for Service %s\n", a.Reservation, a.Policy, a.ReservationFor)
	case a.Reservation != "":
		cli.Write(w, "  the reservation %q of ServiceCIDRPolicy %q keeps it from everybody\n", a.Reservation, a.Policy)
	case a.CoolsUntil != nil:
		cli.Write(w, "  Service %s had it; by ServiceCIDRPolicy %q it is kept from other Services until %s\n", a.LastService, a.Policy, a.CoolsUntil.UTC().Format(time.RFC3339))
	case a.Policy != "":
		cli.Write(w, "  ServiceCIDRPolicy %q keeps its range for the Services that the policy selects\n", a.Policy)
	}
	switch a.Allocation {
	case v1alpha1.AllocationByRequest:
		cli.Write(w, "  ServiceCIDRPolicy %q gives the addresses of its range by request only: none is drawn\n", a.AllocationPolicy)
	case v1alpha1.AllocationCordoned:
		cli.Write(w, "  ServiceCIDRPolicy %q has cordoned its range: no Service is given an address that it does not have\n", a.AllocationPolicy)
	}
	if ip := a.IPAddress; len(a.Services) == 0 && ip != nil && ip.DeletionTimestamp == nil && upstream.ManagedByAPIServer(ip) {
		cli.Write(w, "  no Service has it in its spec.clusterIPs: if that lasts for more than a minute the IPAddress is deleted\n")
	}
	for _, problem := range problems(a) {
		cli.Write(w, "  problem: %s\n", plain.Text(problem))
	}
}

func stateOf(a view.Address) string {
	if len(a.Services) > 0 {
		return "the ClusterIP of Service " + strings.Join(a.Services, " and of Service ")
	}
	return a.State
}

// problems are what is wrong with an address, in the words of `check`.
func problems(a view.Address) (all []string) {
	r := check.Report{}
	r.AddDrift(a.Drift)
	for _, i := range r.Items {
		all = append(all, i.Check+": "+i.Message)
	}
	return all
}

// describeExplanation says what would happen to a Service. has are the addresses that it has now.
func describeExplanation(w io.Writer, e admission.Explanation, has []view.Address) {
	if e.NoAddress {
		cli.Write(w, "The Service is headless, or of type ExternalName: it gets no address.\n")
		return
	}
	if e.Refused != "" {
		cli.Write(w, "The Service is refused: %s\n", plain.Text(e.Refused))
	}
	switch {
	case e.Reason == "" || e.Reason == e.Refused:
	case e.Policy != "":
		cli.Write(w, "  by ServiceCIDRPolicy %q: %s\n", e.Policy, plain.Text(e.Reason))
	default:
		cli.Write(w, "  for admins: %s\n", plain.Text(e.Reason))
	}
	for _, warning := range e.Warnings {
		cli.Write(w, "The user is warned: %s\n", plain.Text(warning))
	}
	if len(e.Drawn) == 0 && e.Refused == "" {
		cli.Write(w, "The API server chooses: the webhook has nothing to draw for this Service.\n")
	}
	for _, s := range e.Drawn {
		describeSource(w, s, has)
	}
}

func describeSource(w io.Writer, s admission.Source, has []view.Address) {
	if len(s.Reserved) > 0 {
		cli.Write(w, "%s: %s is reserved for it\n", s.Family, s.Reserved[0])
		return
	}
	cli.Write(w, "%s: an address of the first of these that has one free\n", s.Family)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	first := true
	for _, step := range s.Order {
		mark := ""
		if first && step.Free > 0 {
			mark, first = "<- this one", false
		}
		cli.Write(t, "  %s\t%s band\t%s free\t%s\t%s\n", whose(step), step.Band, number(float64(step.Free)), wording.First(step.Ranges, 4), mark)
	}
	_ = t.Flush() // w keeps its own error
	if len(s.Order) == 0 {
		cli.Write(w, "  there is none\n")
	}
	for _, a := range has {
		if string(s.Family) == allocator.FamilyOf(a.Address).String() && !drawable(s, a) {
			cli.Write(w, "  %s is none of these: it was chosen, or drawn when policies or ranges were others\n", a.Address)
		}
	}
	describePolicies(w, s.Policies)
}

func drawable(s admission.Source, a view.Address) bool {
	for _, step := range s.Order {
		if step.Contains(a.Address) {
			return true
		}
	}
	return false
}

func whose(s admission.Step) string {
	if s.Policy == "" {
		return "ranges open to all"
	}
	return "policy " + s.Policy
}

func describePolicies(w io.Writer, all []admission.PolicySelection) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, v := range all {
		if v.Steers {
			cli.Write(t, "  policy %s\tsteers it\n", v.Policy)
		} else {
			cli.Write(t, "  policy %s\tdoes not: %s\n", v.Policy, v.Why)
		}
	}
	_ = t.Flush() // w keeps its own error
}

func describeRange(w io.Writer, r rangeAnswer) {
	for _, one := range r.Ranges {
		cli.Write(w, "%s: %.0f %% in use, %d reserved, %d cooling, %s free, %s; policies %s\n", one.CIDR, one.share(), one.Static.Reserved+one.Dynamic.Reserved,
			one.Static.Cooling+one.Dynamic.Cooling, number(float64(one.Static.Free)+float64(one.Dynamic.Free)), one.outlook(), one.policies())
	}
	if len(r.Ranges) > 0 && r.Ranges[0].Terminating {
		cli.Write(w, "It is being deleted, and held by the finalizers %s\n", strings.Join(r.Finalizers, ", "))
	}
	wrong := check.RangeFaults(r.Conditions)
	for _, c := range wrong {
		cli.Write(w, "%s is %s since %s: %s\n", c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.RFC3339), plain.Text(c.Message))
	}
	if len(wrong) == 0 {
		cli.Write(w, "Nothing is wrong with it.\n")
	}
}
