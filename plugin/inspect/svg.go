package inspect

import (
	"fmt"
	"io"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// side is how many pixels a cell of a picture is wide and high.
const side = 12

// colours of what cells are used for. Patterns tell them apart where colours do not.
const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">
<style>.free{fill:#eef2f5}.allocated{fill:#2463a8}.reserved{fill:url(#reserved)}.cooling{fill:url(#cooling)}.wrong{fill:#c62828}.static{stroke:#555;stroke-width:1}text{fill:#555}</style>
<defs><pattern id="reserved" width="4" height="4" patternUnits="userSpaceOnUse"><rect width="4" height="4" fill="#f5d9a6"/><path d="M0 4 4 0" stroke="#8a5a00"/></pattern>
<pattern id="cooling" width="4" height="4" patternUnits="userSpaceOnUse"><rect width="4" height="4" fill="#cfe8ef"/><circle cx="2" cy="2" r="1" fill="#1b6b80"/></pattern></defs>
`

// drawSVG draws charts below each other. Cells of the static band have a frame.
func drawSVG(w io.Writer, charts []Chart) error {
	var b strings.Builder
	y := 0
	for _, c := range charts {
		y += 20
		fmt.Fprintf(&b, "<text x=\"0\" y=\"%d\">%s, %s in a cell</text>\n", y-6, c.Prefix, c.each())
		for i, one := range c.Cells {
			fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" %s><title>%s: %d allocated, %d reserved, %d cooling, %d free</title></rect>\n",
				i%mapWidth*side, y+i/mapWidth*side, side-2, side-2, one.class(), one.span, one.Usage.Allocated, one.Usage.Reserved, one.Usage.Cooling, one.Usage.Free)
		}
		y += (len(c.Cells)+mapWidth-1)/mapWidth*side + 10
	}
	_, err := fmt.Fprintf(w, svgHead+"%s</svg>\n", mapWidth*side, y, b.String())
	return err
}

// class is how a cell is painted. An allocated cell is the paler, the fewer addresses are in use.
func (c Cell) class() string {
	kind, more := "free", ""
	switch u := c.Usage; {
	case c.Wrong:
		kind = "wrong"
	case u.Allocated > 0:
		kind = "allocated"
		more = fmt.Sprintf(" fill-opacity=\"%.2f\"", 0.25+0.75*float64(u.Allocated)/float64(u.Size))
	case u.Reserved > 0:
		kind = "reserved"
	case u.Cooling > 0:
		kind = "cooling"
	}
	if c.offered && c.band == allocator.Static {
		kind += " static"
	}
	return fmt.Sprintf("class=\"%s\"%s", kind, more)
}
