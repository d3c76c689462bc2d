package migration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// defaultName is that of the ServiceCIDR which stands for --service-cluster-ip-range.
const defaultName = v1alpha1.DefaultServiceCIDR

// serviceRanges finds out what the API server allocates from: what the admin says, else what the bitmaps are of where they are
// alive, else what the default ServiceCIDR says.
func (p *Plan) serviceRanges() []netip.Prefix {
	if p.World.Given != nil {
		return p.World.Given
	}
	if p.World.Allocator != AllocatorIPAddresses {
		if ranges := p.bitmapRanges(); ranges != nil {
			return ranges
		}
	}
	if c := p.World.defaultCIDR(); c != nil {
		return c.CIDRs
	}
	return p.bitmapRanges()
}

// bitmapRanges are those of the bitmaps, nil unless all are readable and fit to the Services.
func (p *Plan) bitmapRanges() []netip.Prefix {
	var out []netip.Prefix
	for _, b := range p.World.Bitmaps {
		if b.Bitmap == nil || p.strange(b) != "" {
			return nil
		}
		out = append(out, b.Bitmap.Prefix())
	}
	if len(out) == 2 && out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil
	}
	return out
}

// strange says why a readable bitmap cannot be of this cluster, "" if nothing speaks against it: Service default/kubernetes
// has the first address of the primary range, and some Service of a family lies in the family's range, if there are any.
func (p *Plan) strange(b StoredBitmap) string {
	prefix := b.Bitmap.Prefix()
	family, inside := 0, 0
	for _, s := range p.World.Services {
		for _, a := range s.Addresses {
			if a.Is4() == prefix.Addr().Is4() {
				family++
				if prefix.Contains(a) {
					inside++
				}
			}
		}
	}
	if family > 0 && inside == 0 {
		return fmt.Sprintf("it is of %s, and none of the %d addresses of this family that Services hold lies in it", prefix, family)
	}
	return ""
}

// judgeDefaultCIDR compares the default ServiceCIDR with the range. An API server that allocates from ServiceCIDRs creates and
// extends it itself.
func (p *Plan) judgeDefaultCIDR() {
	c := p.World.defaultCIDR()
	switch {
	case c != nil && c.Deleting, p.World.Allocator.writesIPAddresses() && p.World.Given == nil:
	case c == nil:
		p.missingDefaultCIDR()
	case len(p.Ranges) > 0 && !slices.Equal(c.CIDRs, p.Ranges):
		p.wrongDefaultCIDR(*c)
	}
}

func (p *Plan) missingDefaultCIDR() {
	f := Finding{Kind: DefaultServiceCIDRMissing, Objects: []string{"ServiceCIDR " + defaultName}}
	switch {
	case len(p.Ranges) == 0:
		f.Plan = "tell the range with --service-cluster-ip-range, or give --etcd-servers, where the bitmaps tell it"
	case p.World.Served && !p.World.Allocator.writesIPAddresses():
		f.Plan = "create it with " + prefixes(p.Ranges)
		p.Steps = append(p.Steps, Step{Do: CreateServiceCIDR, CIDRs: p.Ranges})
	default:
		f.Plan = "the API server creates it when it begins to allocate from IPAddresses"
	}
	p.Findings = append(p.Findings, f)
}

func (p *Plan) wrongDefaultCIDR(c ServiceCIDR) {
	f := Finding{
		Kind: DefaultServiceCIDRWrong, Objects: []string{"ServiceCIDR " + defaultName},
		Detail: fmt.Sprintf("it is %s, the API server has %s", prefixes(c.CIDRs), prefixes(p.Ranges)),
	}
	if swapped(c.CIDRs, p.Ranges) {
		f.Kind = SecondaryRangeMislabelled
	}
	switch {
	case p.World.Allocator.writesIPAddresses():
		f.Plan = "start the API server with " + prefixes(c.CIDRs) + ", or move the Services and delete this ServiceCIDR, which the API server then creates anew"
	case len(c.Finalizers) > 0:
		f.Plan = "delete it, so that it can be created anew; nothing allocates from it yet. Its finalizers are left to those who set them: " + strings.Join(c.Finalizers, ", ")
	case !p.World.Served:
		f.Plan = "delete its key in etcd, or serve networking.k8s.io/v1beta1 and run again"
	default:
		f.Plan = "delete it and create it with " + prefixes(p.Ranges) + "; nothing allocates from it yet"
		p.Steps = append(p.Steps, Step{Do: ReplaceServiceCIDR, UID: c.UID, ResourceVersion: c.ResourceVersion, CIDRs: p.Ranges})
	}
	p.Findings = append(p.Findings, f)
}

func swapped(a, b []netip.Prefix) bool {
	return len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

func prefixes(all []netip.Prefix) string {
	texts := make([]string, 0, len(all))
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ",")
}
