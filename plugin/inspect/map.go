package inspect

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// A map has at most 2^mapBits cells, in lines of mapWidth that each begin with their first address.
const mapWidth, mapBits = 64, 11

// NewMap returns the command `map`.
func NewMap(a *cli.Session) *cobra.Command {
	var file, format string
	cmd := &cobra.Command{
		Use:   "map NAME | CIDR",
		Short: "Draw the address space of a ServiceCIDR, or of a part of it",
		Long: `Draws every range of a ServiceCIDR, or the part of the address space that a CIDR names. A cell stands for as many addresses as fit.

  .  free    ░ ▒ ▓ █  allocated, the darker the more of the cell    R  reserved    c  cooling    !  something is wrong
  |  before the first cell of the dynamic band`,
		Example: `  kubectl clusterip map kubernetes
  kubectl clusterip map 10.96.4.0/24 --svg map.svg
  kubectl clusterip map kubernetes -o json`,
		Args: cli.OneArgument("NAME or CIDR", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			what, err := mapArgument(args[0])
			if err == nil {
				err = validDrawing(file, format)
			}
			if err != nil {
				return err
			}
			return drawMap(cmd.Context(), a, what, file, format)
		},
	}
	cmd.ValidArgsFunction = a.Complete(cli.KindRange, 1)
	cmd.Flags().StringVar(&file, "svg", "", "write a picture into this file instead")
	cli.AddOutput(cmd, &format)
	return cmd
}

// validDrawing returns an error if nothing can be drawn so.
func validDrawing(file, format string) error {
	switch err := cli.ValidOutput(format); {
	case err != nil:
		return err
	case file == "":
		return nil
	case !cli.AsTable(format):
		return fmt.Errorf("--svg writes a picture, and --output %s prints none; leave one of both out", format)
	}
	return cli.ValidFile("--svg", file)
}

// mapArgument reads the name of a ServiceCIDR, or a CIDR.
func mapArgument(text string) (string, error) {
	if first, bits, ok := strings.Cut(text, "/"); ok && cli.KindOf(first) == "" {
		return text, validCIDR(text, first, bits)
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return "", fmt.Errorf("%s is an address, not a CIDR; write %s/BITS, or `kubectl clusterip why %s`", text, text, text)
	}
	return rangeName(text)
}

// validCIDR says what is wrong with a CIDR that was cut in two.
func validCIDR(text, first, bits string) error {
	address, err := netip.ParseAddr(first)
	if err != nil || address.Zone() != "" {
		return fmt.Errorf("%.300q is neither a CIDR nor the name of a ServiceCIDR; write it as 10.96.0.0/24", text)
	}
	if _, err := netip.ParsePrefix(text); err != nil {
		return fmt.Errorf("%.300q is no CIDR: behind the slash of an %s address is a number from 0 to %d, not %.60q", text, allocator.FamilyOf(address), address.BitLen(), bits)
	}
	return nil
}

// Cell is a run of addresses and what they are used for.
type Cell struct {
	span    allocator.Span
	Usage   allocator.Usage
	Wrong   bool // something is wrong with one of them
	band    allocator.Band
	offered bool // the range offers the first one, in that band
}

// Chart is one range that is drawn.
type Chart struct {
	Prefix netip.Prefix
	Bits   int // a cell is 2^bits addresses
	Cells  []Cell
}

// each is how many addresses a cell is, in words.
func (c Chart) each() string {
	if c.Bits == 0 {
		return "1 address"
	}
	return number(math.Exp2(float64(c.Bits))) + " addresses"
}

func drawMap(ctx context.Context, a *cli.Session, what, file, format string) error {
	s, own, err := openFor(ctx, a, a.Namespace())
	if err != nil {
		return err
	}
	var d drawn
	if own {
		d.partial = fmt.Sprintf("Only ClusterIPs of namespace %s are drawn; more is told by %s", a.Namespace(), unread)
		d.charts, err = ownCharts(ctx, s, a.Namespace(), what)
	} else {
		d.charts, err = chartsOf(ctx, s, what)
	}
	if err != nil {
		return err
	}
	if own {
		cli.Write(a.ErrOut, "%s\n", d.partial)
	}
	if file == "" {
		return d.print(a.Out, format)
	}
	if err := batch.Replace(file, func(w io.Writer) error { return drawSVG(w, d.charts) }); err != nil {
		return fmt.Errorf("writing --svg %s: %w", file, err)
	}
	return nil
}

// chartsOf draws what is asked for, with all that is known of the cluster.
func chartsOf(ctx context.Context, s *cli.Cluster, what string) (charts []Chart, err error) {
	list := &networkingv1.ServiceCIDRList{}
	if err := s.ListNamed(ctx, list, "ServiceCIDRs"); err != nil {
		return nil, err
	}
	ranges, err := RangesToDraw(what, list.Items)
	if err != nil {
		return nil, err
	}
	v, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	wrong, err := v.Wrong(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range ranges {
		charts = append(charts, NewChart(r, mapBits, v.Usage, wrong))
	}
	return charts, nil
}

// Part is a part of a range, which tells the bands.
type Part struct {
	Of   allocator.Range
	part netip.Prefix
}

// RangesToDraw reads what is to be drawn: the name of a ServiceCIDR, or a CIDR that lies in one.
func RangesToDraw(what string, all []networkingv1.ServiceCIDR) (out []Part, err error) {
	part, notACIDR := netip.ParsePrefix(what)
	for _, o := range all {
		for _, text := range o.Spec.CIDRs {
			r, err := allocator.ParseRange(text)
			switch {
			case err != nil:
			case notACIDR != nil && o.Name == what:
				out = append(out, Part{r, r.Prefix()})
			case notACIDR == nil && len(out) == 0 && r.Prefix().Bits() <= part.Bits() && r.Prefix().Contains(part.Addr()):
				out = append(out, Part{r, part.Masked()})
			}
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	if notACIDR != nil {
		return nil, absent("ServiceCIDR", what, namesOf(all), "kubectl clusterip ranges")
	}
	return nil, fmt.Errorf("%s: %w: no ServiceCIDR has all of it; `kubectl clusterip ranges` lists all", what, ErrNothing)
}

// NewChart parts a range into cells of equal size, a power of two: 2^most at most.
func NewChart(r Part, most int, usage func(allocator.Span) allocator.Usage, wrong []netip.Addr) Chart {
	host := r.part.Addr().BitLen() - r.part.Bits()
	bits := max(0, host-most) // of a cell
	c := Chart{Prefix: r.part, Bits: bits}
	marked := map[netip.Addr]bool{}
	for _, a := range wrong {
		marked[first(a, bits)] = true
	}
	at := r.part.Addr()
	for range 1 << (host - bits) {
		span := steering.SpanOf(netip.PrefixFrom(at, at.BitLen()-bits))
		band, offered := r.Of.BandOf(at)
		c.Cells = append(c.Cells, Cell{span, usage(span), marked[at], band, offered})
		at = span.Last.Next()
	}
	return c
}

// first is the first address of the cell that an address lies in.
func first(a netip.Addr, bits int) netip.Addr {
	return netip.PrefixFrom(a, a.BitLen()-bits).Masked().Addr()
}

// Dynamic reports whether the first address is in the dynamic band.
func (c Cell) Dynamic() bool { return c.offered && c.band == allocator.Dynamic }

// symbol is how a cell is drawn.
func (c Cell) symbol() rune {
	shades := []rune("░▒▓█")
	switch u := c.Usage; {
	case c.Wrong:
		return '!'
	case u.Allocated > 0:
		return shades[int(math.Ceil(float64(u.Allocated)/float64(u.Size)*4))-1]
	case u.Reserved > 0:
		return 'R'
	case u.Cooling > 0:
		return 'c'
	default:
		return '.'
	}
}

func (c Chart) draw(w io.Writer) {
	cli.Write(w, "%s, %s in a cell\n", c.Prefix, c.each())
	width := 0
	for i := 0; i < len(c.Cells); i += mapWidth {
		width = max(width, len(c.Cells[i].span.First.String()))
	}
	for i := 0; i < len(c.Cells); i += mapWidth {
		var line strings.Builder
		for j, one := range c.Cells[i:min(i+mapWidth, len(c.Cells))] {
			if n := i + j; one.Dynamic() && n > 0 && !c.Cells[n-1].Dynamic() {
				line.WriteByte('|')
			}
			line.WriteRune(one.symbol())
		}
		cli.Write(w, "%-*s %s\n", width, c.Cells[i].span.First, line.String())
	}
}
