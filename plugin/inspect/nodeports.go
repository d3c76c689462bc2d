package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/nodeports"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// NodePort is one number, and the ports of Services that use it.
type NodePort struct {
	NodePort uint16 `json:"nodePort"`
	// Band is empty where the number lies outside of the range.
	Band string    `json:"band,omitempty"`
	Uses []PortUse `json:"uses"`
}

// PortUse is a port of a Service, or its health check, which has a node port.
type PortUse struct {
	Service     string          `json:"service"`
	Name        string          `json:"name,omitempty"`
	Port        int32           `json:"port,omitempty"`
	Protocol    corev1.Protocol `json:"protocol,omitempty"`
	HealthCheck bool            `json:"healthCheck,omitempty"`
}

// String is how why and node-ports write it.
func (u PortUse) String() string {
	if u.HealthCheck {
		return "health check"
	}
	text := fmt.Sprintf("%d/%s", u.Port, u.Protocol)
	if u.Name != "" {
		text += " (" + u.Name + ")"
	}
	return text
}

// NodePortBand is a part of the range of node ports, as `ranges --node-ports` prints it.
type NodePortBand struct {
	Range     string `json:"range"`
	Band      string `json:"band"`
	Size      int    `json:"size"`
	Allocated int    `json:"allocated"`
	Free      int    `json:"free"`
}

// nodePortRange is the flag that says which node ports there are.
type nodePortRange struct{ nodeports.Range }

// newNodePortRange is kube-apiserver's default.
func newNodePortRange() nodePortRange {
	var r nodePortRange
	_ = r.Set(v1alpha1.DefaultNodePortRange) // a constant that can be read
	return r
}

// Set implements pflag.Value.
func (r *nodePortRange) Set(text string) (err error) {
	r.Range, err = nodeports.ParseRange(text)
	return err
}

// Type implements pflag.Value.
func (*nodePortRange) Type() string { return "range" }

func (r *nodePortRange) addFlag(cmd *cobra.Command) {
	cmd.Flags().Var(r, "node-port-range", "kube-apiserver's --service-node-port-range, which no API tells")
}

// NewNodePorts returns the command `node-ports`.
func NewNodePorts(a *cli.Session) *cobra.Command {
	var out cli.Output
	ports := newNodePortRange()
	cmd := &cobra.Command{
		Use:     "node-ports",
		Aliases: []string{"nodeports"},
		Short:   "List the node ports in use, with who has them",
		Long: `Lists the node ports of Services, those of health checks too, in all namespaces or that of --namespace. A Service may use one number for a port of each protocol.

` + "`ranges --node-ports`" + ` says how many are left, ` + "`why nodeport/NUMBER`" + ` tells of one.`,
		Example: `  kubectl clusterip node-ports
  kubectl clusterip node-ports -n shop -o custom-columns=PORT:.nodePort,SERVICE:.uses[0].service`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Validate(); err != nil {
				return err
			}
			all, err := openNodePorts(cmd.Context(), a, a.Namespace(), ports.Range)
			if err != nil {
				return err
			}
			return out.List(a.Streams, listNodePorts(all))
		},
	}
	out.AddFlags(cmd)
	a.AddAllNamespaces(cmd, "Services")
	ports.addFlag(cmd)
	return cmd
}

// openNodePorts connects to the cluster, and returns the node ports in use in a namespace, "" for
// all.
func openNodePorts(ctx context.Context, a *cli.Session, namespace string, of nodeports.Range) ([]NodePort, error) {
	s, err := a.Open()
	if err != nil {
		return nil, err
	}
	return nodePortsIn(ctx, s, namespace, of)
}

// nodePortsIn are the node ports in use in a namespace, "" for all, in order.
func nodePortsIn(ctx context.Context, s *cli.Cluster, namespace string, of nodeports.Range) ([]NodePort, error) {
	list, uses := &corev1.ServiceList{}, portUses{}
	err := s.EachPage(ctx, list, "Services", func() { clear(uses) }, func() error {
		uses.note(list.Items)
		return nil
	}, client.InNamespace(namespace))
	return uses.all(of), err
}

// portUses are the ports of Services that use a node port.
type portUses map[uint16][]PortUse

// note notes those of Services.
func (uses portUses) note(services []corev1.Service) {
	for i := range services {
		s := &services[i]
		name := s.Namespace + "/" + s.Name
		for _, number := range nodeports.Of(s) {
			for _, p := range s.Spec.Ports {
				if p.NodePort == int32(number) {
					uses[number] = append(uses[number], PortUse{Service: name, Name: p.Name, Port: p.Port, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP)})
				}
			}
			if s.Spec.HealthCheckNodePort == int32(number) {
				uses[number] = append(uses[number], PortUse{Service: name, HealthCheck: true})
			}
		}
	}
}

// all are the node ports in use, in order.
func (uses portUses) all(of nodeports.Range) []NodePort {
	all := make([]NodePort, 0, len(uses)) // programs find a list
	for number := range uses {
		all = append(all, NodePort{NodePort: number, Band: bandOf(number, of), Uses: uses[number]})
	}
	slices.SortFunc(all, func(a, b NodePort) int { return cmp.Compare(a.NodePort, b.NodePort) })
	return all
}

// bandOf is the band of a node port, empty outside of the range.
func bandOf(number uint16, of nodeports.Range) string {
	band, ok := of.BandOf(number)
	if !ok {
		return ""
	}
	return band.String()
}

func listNodePorts(all []NodePort) cli.Listing {
	l := cli.Listing{
		Value: list[NodePort]{"NodePortList", all},
		Table: metav1.Table{ColumnDefinitions: cli.Columns("NODE-PORT", "SERVICE", "PORT", "BAND")},
	}
	for _, p := range all {
		l.Names = append(l.Names, "nodeport/"+strconv.Itoa(int(p.NodePort)))
		for _, u := range p.Uses {
			l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{p.NodePort, u.Service, u, cmp.Or(p.Band, "<outside>")}})
		}
	}
	return l
}

// printNodePortBands prints how many node ports are left.
func printNodePortBands(ctx context.Context, a *cli.Session, of nodeports.Range, out cli.Output) error {
	all, err := openNodePorts(ctx, a, "", of)
	if err != nil {
		return err
	}
	if outside := len(all) - len(inRange(all, of)); outside > 0 {
		cli.Write(a.ErrOut, "%d node ports of Services lie outside of %s: is kube-apiserver's --service-node-port-range another one? Then give it by --node-port-range\n", outside, of)
	}
	return out.List(a.Streams, listNodePortBands(nodePortBands(all, of)))
}

func inRange(all []NodePort, of nodeports.Range) []NodePort {
	return slices.DeleteFunc(slices.Clone(all), func(p NodePort) bool { return !of.Contains(p.NodePort) })
}

func nodePortBands(all []NodePort, of nodeports.Range) []NodePortBand {
	var out []NodePortBand
	for _, b := range []allocator.Band{allocator.Static, allocator.Dynamic} {
		part := of.Band(b)
		if part.Size() == 0 {
			continue
		}
		used := len(inRange(all, part))
		out = append(out, NodePortBand{Range: part.String(), Band: b.String(), Size: part.Size(), Allocated: used, Free: part.Size() - used})
	}
	return out
}

func listNodePortBands(all []NodePortBand) cli.Listing {
	l := cli.Listing{
		Value: list[NodePortBand]{"NodePortBandList", all},
		Table: metav1.Table{ColumnDefinitions: cli.Columns("NODE-PORTS", "BAND", "SIZE", "USED", "FREE")},
	}
	for _, b := range all {
		used := fmt.Sprintf("%d (%.0f%%)", b.Allocated, percent(float64(b.Allocated), float64(b.Size)))
		l.Names = append(l.Names, "nodeports/"+b.Band)
		l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{b.Range, b.Band, b.Size, used, b.Free}})
	}
	return l
}

// nodePortAnswer is what `why` says of a node port.
type nodePortAnswer struct {
	NodePort
	Range string `json:"range"`
}

// whyNodePort tells of one node port by the Services of a namespace, "" for all.
func whyNodePort(ctx context.Context, s *cli.Cluster, name, namespace string, of nodeports.Range) (*nodePortAnswer, error) {
	n, err := strconv.ParseUint(name, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("reading the node port: %w", err) // it has been read before
	}
	all, err := nodePortsIn(ctx, s, namespace, of)
	if err != nil {
		return nil, err
	}
	return answerOf(all, uint16(n), of), nil
}

// answerOf is what is known of a number.
func answerOf(all []NodePort, number uint16, of nodeports.Range) *nodePortAnswer {
	out := &nodePortAnswer{NodePort: NodePort{NodePort: number, Band: bandOf(number, of), Uses: []PortUse{}}, Range: of.String()}
	for _, p := range all {
		if p.NodePort == number {
			out.NodePort = p
		}
	}
	return out
}

// describe prints it; own: only the Services of a namespace are known.
func (n nodePortAnswer) describe(w io.Writer, own bool) {
	services := map[string]bool{}
	for _, u := range n.Uses {
		services[u.Service] = true
		cli.Write(w, "%d is the node port of Service %s: %s\n", n.NodePort.NodePort, u.Service, u)
	}
	switch {
	case len(n.Uses) > 0:
	case own:
		cli.Write(w, "No Service of yours has %d; another one may.\n", n.NodePort.NodePort)
	default:
		cli.Write(w, "%d is free: no Service has it\n", n.NodePort.NodePort)
	}
	switch n.Band {
	case "":
		cli.Write(w, "  it lies outside of %s: API servers give out no such port, unless their --service-node-port-range is another one (--node-port-range says so here)\n", n.Range)
	case allocator.Static.String():
		cli.Write(w, "  it lies in the static band of %s, for Services that name their port: API servers draw from it last\n", n.Range)
	default:
		cli.Write(w, "  it lies in the dynamic band of %s, from which API servers draw first\n", n.Range)
	}
	if len(services) > 1 {
		cli.Write(w, "  problem: a node port belongs to one Service, and proxies serve it for one of these: give the others another one\n")
	}
}
