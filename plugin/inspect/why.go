package inspect

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/admission"
	"github.com/clusterip-operator/clusterip-operator/internal/nodeports"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// NewWhy returns the command `why`.
func NewWhy(a *cli.Session) *cobra.Command {
	var format, withLabels string
	ports := newNodePortRange()
	cmd := &cobra.Command{
		Use:   "why service/NAME | namespace/NAME | range/NAME | policy/NAME | ADDRESS | nodeport/NUMBER",
		Short: "Why a Service has this address, is refused, or a range does not go",
		Long: `Explains one thing:

  service/NAME      where its addresses come from, or what would happen if it were created now;
                    it is in the namespace of -n or of the kubeconfig, if not service/NAMESPACE/NAME
  namespace/NAME    what would happen to a new Service there
  range/NAME        why a ServiceCIDR is not ready, is full, or is not deleted
  policy/NAME       what is wrong with a ServiceCIDRPolicy, its ranges, and what it refused
  ADDRESS           who has the address, and who may have it
  nodeport/NUMBER   which Service has the node port, or that it is free, and in which band

What would happen is computed by the function by which the admission webhook decides. Nothing is changed.

Of an address that is in use its IPAddress and Service are read, and of the rest of the cluster little. That two Services have one address as their second, which is a fault, is found by ` + "`check`" + `.`,
		Example: `  kubectl clusterip why service/shop/web
  kubectl clusterip why svc/web -n shop
  kubectl clusterip why namespace/shop --labels=tier=web
  kubectl clusterip why 10.96.0.10
  kubectl clusterip why nodeport/30080`,
		Args: cli.OneArgument("TYPE/NAME or ADDRESS", 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.ValidOutput(format); err != nil {
				return err
			}
			set, err := labels.ConvertSelectorToLabelsMap(withLabels)
			if err != nil {
				return fmt.Errorf("--labels: %w; write them as name=value,name=value", err)
			}
			subject := strings.Join(args, "/") // TYPE NAME, as kubectl takes it too
			of, err := parseSubject(subject, cmp.Or(a.Namespace(), metav1.NamespaceDefault))
			if err == nil && of.Kind == cli.KindService && a.Namespace() != "" && of.Namespace != a.Namespace() {
				err = fmt.Errorf("%s is not in the namespace of --namespace=%s; leave one of both out", subject, a.Namespace())
			}
			if err != nil {
				return err
			}
			return why(cmd.Context(), a, subject, set, ports.Range, format)
		},
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return completeSubject(cmd.Context(), a, args, word)
	}
	cli.AddOutput(cmd, &format)
	ports.addFlag(cmd)
	cmd.Flags().StringVarP(&withLabels, "labels", "l", "", "labels of the Service that would be created: name=value,name=value")
	return cmd
}

// completeSubject completes TYPE/NAME: first the type, then the name by what the cluster has.
func completeSubject(ctx context.Context, a *cli.Session, args []string, word string) ([]string, cobra.ShellCompDirective) {
	kind, _, typed := strings.Cut(word, "/")
	switch {
	case len(args) > 0:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case typed:
		return a.Names(ctx, cli.KindOf(kind), kind+"/", word), cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"service/", "namespace/", "range/", "policy/", "nodeport/"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// Answer is what `why` prints, in one of its parts for people.
type Answer struct {
	Subject string `json:"subject"`
	// Missing: there is no such Service yet.
	Missing bool `json:"missing,omitempty"`
	// Addresses are those that the Service has, or the one that was asked for.
	Addresses []view.Address `json:"addresses,omitempty"`
	// Refusals of the past are noted in the status of policies.
	Refusals []pastRefusal `json:"refusals,omitempty"`
	// ByAPIServer is the address that API servers give to Service default/kubernetes, which they
	// create themselves: no policy is asked.
	ByAPIServer *view.Address `json:"byAPIServer,omitempty"`
	// IfCreated is what would happen to the Service if it were created now.
	IfCreated *admission.Explanation `json:"ifCreated,omitempty"`
	// Range is a ServiceCIDR with what is wrong with it.
	Range *rangeAnswer `json:"range,omitempty"`
	// Partial says what the user may not read, and how to find it out: set, there is but Addresses.
	Partial string `json:"partial,omitempty"`
	// Policy is a ServiceCIDRPolicy with what is wrong with it.
	Policy *policyAnswer `json:"policy,omitempty"`
	// NodePort is a node port with who has it.
	NodePort *nodePortAnswer `json:"nodePort,omitempty"`
}

type rangeAnswer struct {
	Ranges     []Range            `json:"ranges"`
	Conditions []metav1.Condition `json:"conditions"`
	Finalizers []string           `json:"finalizers,omitempty"`
}

func why(ctx context.Context, a *cli.Session, subject string, set labels.Set, ports nodeports.Range, format string) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	of, err := parseSubject(subject, s.Namespace)
	if err != nil {
		return err
	}
	own, err := tenantOf(ctx, s, a.Namespace())
	if err != nil {
		return err
	}
	var out Answer
	if own {
		out, err = ownAnswer(ctx, s, a.Namespace(), of, ports)
	} else {
		out, err = answer(ctx, s, of, set, ports)
	}
	if err != nil {
		return err
	}
	out.Subject = subject
	if !cli.AsTable(format) {
		return cli.Encode(a.Out, out, format)
	}
	w := bufio.NewWriter(a.Out)
	out.Describe(w, time.Now())
	return w.Flush()
}

// Question reads what is asked. A Service without a namespace is in that of the kubeconfig.
func Question(s *cli.Cluster, subject string, set labels.Set) (func(context.Context) (Answer, error), error) {
	of, err := parseSubject(subject, s.Namespace)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Answer, error) { return answer(ctx, s, of, set, newNodePortRange().Range) }, nil
}

// parseSubject reads what `why` explains: TYPE/NAME, or an address.
func parseSubject(text, namespace string) (of cli.Subject, err error) {
	of, known, err := cli.ParseSubject(text, namespace)
	if known && of.Kind != cli.KindAddress {
		return of, err
	}
	address, err := parseAddress(text)
	if err != nil {
		return of, fmt.Errorf("%.300q is neither an address nor service/NAME, service/NAMESPACE/NAME, namespace/NAME, range/NAME, policy/NAME or nodeport/NUMBER", text)
	}
	return cli.Subject{Kind: cli.KindAddress, Name: address.String()}, nil
}

func answer(ctx context.Context, s *cli.Cluster, of cli.Subject, set labels.Set, ports nodeports.Range) (out Answer, err error) {
	switch of.Kind {
	case cli.KindService:
		return whyService(ctx, s, types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, set)
	case cli.KindNamespace:
		return whyNamespace(ctx, s, of.Name, set)
	case cli.KindRange:
		return whyRange(ctx, s, of.Name)
	case cli.KindPolicy:
		return whyPolicy(ctx, s, of.Name)
	case cli.KindNodePort:
		out.NodePort, err = whyNodePort(ctx, s, of.Name, "", ports)
		return out, err
	default:
		return whyAddress(ctx, s, netip.MustParseAddr(of.Name))
	}
}

func whyService(ctx context.Context, s *cli.Cluster, name types.NamespacedName, set labels.Set) (out Answer, err error) {
	service := &corev1.Service{}
	switch err := s.Get(ctx, name, service); {
	case apierrors.IsNotFound(err):
		out.Missing = true
		service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: set}}
	case err != nil:
		return out, fmt.Errorf("reading Service %s: %w", name, cli.Permission(err))
	}
	byAPIServer := name.Namespace == metav1.NamespaceDefault && name.Name == "kubernetes"
	question := view.Question{Explains: !byAPIServer}
	for _, text := range service.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil { // headless, or something that is no address
			question.Addresses = append(question.Addresses, a)
		}
	}
	v, err := s.ViewFor(ctx, question)
	if err != nil {
		return out, err
	}
	for _, a := range question.Addresses {
		one, err := v.Address(ctx, a)
		if err != nil {
			return out, err
		}
		out.Addresses = append(out.Addresses, one)
	}
	if len(set) > 0 {
		service.Labels = set
	}
	if out.Refusals, err = refusals(ctx, s, name.String()); err != nil {
		return out, err
	}
	if byAPIServer {
		out.ByAPIServer, err = givenByAPIServer(ctx, s)
		return out, err
	}
	return out, explainAnew(ctx, v, service, &out)
}

// givenByAPIServer is the first address of the API server's primary range, as the default
// ServiceCIDR tells it; nil without one.
func givenByAPIServer(ctx context.Context, s *cli.Cluster) (*view.Address, error) {
	ranges, _, err := s.RangesAndPolicies(ctx)
	if err != nil {
		return nil, err
	}
	first := check.FirstAddress(ranges.Items)
	if !first.IsValid() {
		return nil, nil
	}
	v, err := s.ViewFor(ctx, view.Question{Addresses: []netip.Addr{first}})
	if err != nil {
		return nil, err
	}
	a, err := v.Address(ctx, first)
	return &a, err
}

// explainAnew explains a creation without addresses: what the Service has already does not count.
func explainAnew(ctx context.Context, v *view.View, service *corev1.Service, out *Answer) error {
	anew := service.DeepCopy()
	if !slices.Contains(anew.Spec.ClusterIPs, corev1.ClusterIPNone) {
		anew.Spec.ClusterIP, anew.Spec.ClusterIPs = "", nil
	}
	e, err := v.Explain(ctx, anew)
	out.IfCreated = &e
	return err
}

func whyNamespace(ctx context.Context, s *cli.Cluster, namespace string, set labels.Set) (out Answer, err error) {
	v, err := s.ViewFor(ctx, view.Question{Explains: true})
	if err != nil {
		return out, err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "new-", Labels: set}}
	service.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
	if out.Refusals, err = refusals(ctx, s, namespace+"/"); err != nil {
		return out, err
	}
	return out, explainAnew(ctx, v, service, &out)
}

// pastRefusal is one of the status of a policy.
type pastRefusal struct {
	Policy string `json:"policy"`
	v1alpha1.PolicyRefusal
}

// refusals reads past refusals from the status of policies.
func refusals(ctx context.Context, s *cli.Cluster, of string) ([]pastRefusal, error) {
	list := &v1alpha1.ServiceCIDRPolicyList{}
	if !s.Policies {
		return nil, nil
	}
	if err := s.ListNamed(ctx, list, "ServiceCIDRPolicies"); err != nil {
		return nil, err
	}
	return refusalsAmong(list.Items, of), nil
}

// refusalsAmong are past refusals, the latest first: of a Service, or of a namespace if the name
// ends with a slash. Of several with one reason the status names only the last Service: other
// Services of its namespace may be among them.
func refusalsAmong(policies []v1alpha1.ServiceCIDRPolicy, of string) (all []pastRefusal) {
	namespace, service, _ := strings.Cut(of, "/")
	for _, p := range policies {
		for _, r := range p.Status.Refusals {
			if r.Service == of || (r.Count > 1 || service == "") && strings.HasPrefix(r.Service, namespace+"/") {
				all = append(all, pastRefusal{p.Name, r})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b pastRefusal) int { return b.Time.Compare(a.Time.Time) })
	return all
}

func whyAddress(ctx context.Context, s *cli.Cluster, address netip.Addr) (out Answer, err error) {
	v, err := s.ViewFor(ctx, view.Question{Addresses: []netip.Addr{address}})
	if err != nil {
		return out, err
	}
	one, err := v.Address(ctx, address)
	out.Addresses = append(out.Addresses, one)
	return out, err
}

func whyRange(ctx context.Context, s *cli.Cluster, name string) (out Answer, err error) {
	cidr := &networkingv1.ServiceCIDR{}
	if err := get(ctx, s, name, cidr, &networkingv1.ServiceCIDRList{}, "ServiceCIDR", "kubectl clusterip ranges"); err != nil {
		return out, err
	}
	policies := &v1alpha1.ServiceCIDRPolicyList{}
	if s.Policies {
		err = s.ListNamed(ctx, policies, "ServiceCIDRPolicies")
	}
	if err != nil {
		return out, err
	}
	infos, err := rangeInfos(ctx, s, []networkingv1.ServiceCIDR{*cidr}, policies.Items)
	out.Range = &rangeAnswer{Ranges: infos, Conditions: cidr.Status.Conditions, Finalizers: cidr.Finalizers}
	return out, err
}
