package compile

import (
	"fmt"
	"strconv"
	"strings"
)

// String returns the explanation as lines of text, the last one with a line end too.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Service %s, %s:", plain(e.Service.String()), e.Family)
	if !e.Known {
		b.WriteString(" there is none, or it is headless or of type ExternalName\n")
		return b.String()
	}
	b.WriteString("\n")
	for _, t := range e.Traits {
		fmt.Fprintf(&b, "  %s\n", t)
	}
	for _, p := range e.Ports {
		p.write(&b)
	}
	if len(e.Ports) == 0 {
		b.WriteString("  it has no ports\n")
	}
	for _, s := range e.Strays {
		fmt.Fprintf(&b, "  endpoint %s\n", s)
	}
	if e.OtherFamily > 0 {
		fmt.Fprintf(&b, "  endpoints of the other family: %d\n", e.OtherFamily)
	}
	return b.String()
}

func (p PortExplanation) write(b *strings.Builder) {
	name := "port"
	if p.Name.Port != "" {
		name += " " + plain(p.Name.Port)
	}
	fmt.Fprintf(b, "  %s (%s %d):\n", name, p.Name.Protocol, p.Port)
	for _, f := range p.Frontends {
		fmt.Fprintf(b, "    %s\n", f)
	}
	for _, e := range p.Endpoints {
		fmt.Fprintf(b, "    endpoint %s\n", e)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(b, "    %s\n", n)
	}
}

// String returns one line without its end.
func (f FrontendExplanation) String() string {
	if f.Served {
		return f.What + ": served"
	}
	return f.What + ": not served, " + f.Why
}

// String returns one line without its end.
func (e EndpointExplanation) String() string {
	where := "unknown node"
	if e.Node != "" {
		where = "node " + plain(e.Node)
	}
	words := "left out"
	switch {
	case e.Cluster && e.Local:
		words = "used for cluster and local traffic"
	case e.Cluster:
		words = "used for cluster traffic"
	case e.Local:
		words = "used for local traffic"
	}
	if e.Why != "" && (e.Cluster || e.Local) {
		words += " only"
	}
	if e.Why != "" {
		words += ": " + e.Why
	}
	return fmt.Sprintf("%s on %s: %s", plain(e.Addr.String()), where, words)
}

// plain quotes what could be more than a word on a terminal.
func plain(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}
