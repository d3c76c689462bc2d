package migration

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// Allocator says from what a cluster's API servers allocate ClusterIPs.
type Allocator string

// AllocatorBoth is dual write: 1.31 to 1.33 with the feature gate MultiCIDRServiceAllocator and
// without DisableAllocatorDualWrite.
const (
	AllocatorUnknown     Allocator = "Unknown"     // nothing tells; it is judged like the bitmap, of which no harm comes
	AllocatorBitmap      Allocator = "Bitmap"      // IPAddresses are written by those who prepare the migration
	AllocatorBoth        Allocator = "Both"        // from IPAddresses, and the bitmap is kept in step
	AllocatorIPAddresses Allocator = "IPAddresses" // a bitmap that is still there is a leftover
)

// WritesIPAddresses reports whether the API server creates and deletes IPAddresses itself.
func (a Allocator) WritesIPAddresses() bool { return a == AllocatorBoth || a == AllocatorIPAddresses }

// Snapshot is what a plan is made of, as it was at one moment. The zero value is an empty cluster.
type Snapshot struct {
	Now       time.Time
	Cluster   types.UID // of namespace kube-system, by which a plan knows its cluster
	Revision  int64     // of etcd, 0 if it was not asked
	Allocator Allocator
	Served    bool           // an API server was asked and serves ServiceCIDRs and IPAddresses
	Given     []netip.Prefix // what the admin says that the API server's --service-cluster-ip-range is, the primary range first; nil for nothing
	Bitmaps   []StoredBitmap // those that exist, primary first

	Services     []Service
	IPAddresses  []relation.IPAddress
	ServiceCIDRs []ServiceCIDR
	Unreadable   []Value // objects that could not be decoded
}

// Service is what matters of a Service.
type Service struct {
	Name      types.NamespacedName
	UID       types.UID
	Created   time.Time
	Addresses []netip.Addr // its ClusterIPs; headless and ExternalName Services have none
	// Invalid are entries that are no address. Misspelt are addresses not written as their IPAddress
	// is named; API servers compare the text.
	Invalid, Misspelt []string
}

// ServiceCIDR is what matters of a ServiceCIDR.
type ServiceCIDR struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	CIDRs           []netip.Prefix
	Finalizers      []string
	Deleting        bool
	ByAPIServer     bool // an API server that allocates from it created it
}

// StoredBitmap is a RangeAllocation as it was found in etcd.
type StoredBitmap struct {
	Key         string // KeyPrimary or KeySecondary
	ModRevision int64
	Range       string         // the text in it
	Bitmap      *bitmap.Bitmap // what it says, nil if Err tells why that cannot be known
	Err         error
}

// Keys of the RangeAllocations, relative to the prefix of the API server's storage.
const (
	KeyPrimary   = "ranges/serviceips"
	KeySecondary = "ranges/secondaryserviceips"
)

var bitmapKeys = []string{KeyPrimary, KeySecondary} // in the order of the ranges

// newService reads a Service. One that was stored before dual stack has spec.clusterIP alone: API
// servers fill in the other field when they read, etcd does not.
func newService(o *corev1.Service) Service {
	if len(o.Spec.ClusterIPs) == 0 && o.Spec.ClusterIP != "" {
		o = o.DeepCopy()
		o.Spec.ClusterIPs = []string{o.Spec.ClusterIP}
	}
	s := Service{
		Name: types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, UID: o.UID, Created: o.CreationTimestamp.Time,
		Addresses: addressindex.ClusterIPs(o),
	}
	for _, text := range o.Spec.ClusterIPs {
		switch a, ok := addressindex.ParseClusterIP(text); {
		case text == "", text == corev1.ClusterIPNone:
		case !ok:
			s.Invalid = append(s.Invalid, text)
		case a.String() != text:
			s.Misspelt = append(s.Misspelt, text)
		}
	}
	return s
}

func newServiceCIDR(o *networkingv1.ServiceCIDR) ServiceCIDR {
	c := ServiceCIDR{
		Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Finalizers: o.Finalizers,
		Deleting: !o.DeletionTimestamp.IsZero(), ByAPIServer: upstream.WrittenByAPIServer(o),
	}
	for _, text := range o.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			c.CIDRs = append(c.CIDRs, p)
		}
	}
	return c
}

// defaultCIDR returns the ServiceCIDR that stands for the API server's flag, nil if there is none.
func (w Snapshot) defaultCIDR() *ServiceCIDR {
	if i := slices.IndexFunc(w.ServiceCIDRs, func(c ServiceCIDR) bool { return c.Name == defaultName }); i >= 0 {
		return &w.ServiceCIDRs[i]
	}
	return nil
}

// Options change what a plan does.
type Options struct {
	RepairBitmap bool // makes the bitmap agree with the Services, while an API server still allocates from it
}

// Plan is what is wrong in a Snapshot, and what mends it.
type Plan struct {
	Snapshot Snapshot
	Ranges   []netip.Prefix // what the API server allocates from, primary first; nil if nothing tells
	Findings []Finding
	Steps    []Step
	// Addresses is how many ClusterIPs Services hold, OK how many of them are as they should be.
	Addresses, OK int
	Passing       int // how many findings were left out because only one of two looks had them; see Sources.Confirmed
}

// NewPlan compares bitmaps, Services, IPAddresses and ServiceCIDRs. It is pure and deterministic.
func NewPlan(w Snapshot, o Options) Plan {
	p := Plan{Snapshot: w}
	p.Ranges = p.serviceRanges()
	b := newHolders(w)
	p.judgeObjects()
	p.judgeGiven()
	p.judgeBitmaps(b, o)
	p.judgeDefaultCIDR()
	p.judgeAddresses(b)
	explain(p.Findings)
	return p
}

// Blocked are the findings because of which nothing may be written.
func (p *Plan) Blocked() []Finding {
	return slices.DeleteFunc(slices.Clone(p.Findings), func(f Finding) bool { return !f.Blocks })
}

// Clean reports whether nothing is wrong.
func (p *Plan) Clean() bool { return !slices.ContainsFunc(p.Findings, Finding.Counts) }

// ReadyToFlip reports whether an API server that starts on this data, and allocates from
// IPAddresses, would find nothing to repair. It creates the default ServiceCIDR by itself.
func (p *Plan) ReadyToFlip() bool { return len(p.StopFlip()) == 0 }

// StopFlip are the findings that such an API server would stumble over.
func (p *Plan) StopFlip() []Finding {
	return slices.DeleteFunc(slices.Clone(p.Findings), func(f Finding) bool {
		return !f.StopsFlip() || f.Kind == DefaultServiceCIDRMissing && !p.Snapshot.Served && len(p.Ranges) > 0
	})
}

func (p *Plan) find(k Kind, detail, plan string, objects ...string) {
	p.Findings = append(p.Findings, Finding{Kind: k, Objects: objects, Detail: detail, Plan: plan})
}

func (p *Plan) block(k Kind, detail, plan string, objects ...string) {
	p.Findings = append(p.Findings, Finding{Kind: k, Objects: objects, Detail: detail, Plan: plan, Blocks: true})
}

func (p *Plan) add(v decision) {
	if v.finding.Kind != "" {
		p.Findings = append(p.Findings, v.finding)
	}
	if v.step.Do != "" {
		p.Steps = append(p.Steps, v.step)
	}
}

// judge returns the judge of addresses. A Service's may lie in the API server's own ranges and
// those of every ServiceCIDR, also of one that is being deleted, as with addressindex.Covering and
// the API server. If the former are unknown none counts: it may be in them.
func (p *Plan) judge() judge {
	j := judge{now: p.Snapshot.Now, allocator: p.Snapshot.Allocator}
	if len(p.Ranges) == 0 {
		return j
	}
	all := slices.Clone(p.Ranges)
	for _, c := range p.Snapshot.ServiceCIDRs {
		if c.Name != defaultName {
			all = append(all, c.CIDRs...)
		}
	}
	for _, prefix := range all {
		if r, err := allocator.NewRange(prefix); err == nil {
			j.ranges = append(j.ranges, r)
		}
	}
	return j
}

func (p *Plan) judgeObjects() {
	for _, u := range p.Snapshot.Unreadable {
		p.block(ObjectUnreadable, u.Err.Error(), "repair or delete the key, then try again; nothing is done while it is there", u.Key)
	}
	const anew = "create the Service anew; nothing is done to it here"
	for _, s := range p.Snapshot.Services {
		for _, text := range s.Invalid {
			p.find(InvalidClusterIP, text, anew, "Service "+s.Name.String())
		}
		for _, text := range s.Misspelt {
			p.find(MisspeltClusterIP, text, anew, "Service "+s.Name.String())
		}
	}
}

// judgeAddresses goes through the addresses in their order, so that plans of one cluster are equal.
func (p *Plan) judgeAddresses(h *holders) {
	j := p.judge()
	for _, a := range slices.SortedFunc(maps.Keys(h.entries), netip.Addr.Compare) {
		e := h.entries[a]
		v := j.address(a, e)
		p.add(v)
		p.add(j.duplicate(a, e))
		if len(e.claims) > 0 {
			p.Addresses++
		}
		if len(e.claims) == 1 && v.finding.Kind == "" {
			p.OK++
		}
	}
}
