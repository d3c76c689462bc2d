package migration

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// Kind says what is wrong.
type Kind string

// The kinds of findings.
const (
	LeakedBit                 Kind = "LeakedBit"
	MissingBit                Kind = "MissingBit"
	DuplicateClusterIP        Kind = "DuplicateClusterIP"
	OutOfRange                Kind = "OutOfRange"
	InvalidClusterIP          Kind = "InvalidClusterIP"
	MisspeltClusterIP         Kind = "MisspeltClusterIP"
	IPAddressMissing          Kind = "IPAddressMissing"
	IPAddressOrphan           Kind = "IPAddressOrphan"
	IPAddressWrongParent      Kind = "IPAddressWrongParent"
	IPAddressWrongLabels      Kind = "IPAddressWrongLabels"
	IPAddressForeign          Kind = "IPAddressForeign"
	DefaultServiceCIDRMissing Kind = "DefaultServiceCIDRMissing"
	DefaultServiceCIDRWrong   Kind = "DefaultServiceCIDRWrong"
	SecondaryRangeMislabelled Kind = "SecondaryRangeMislabelled"
	RangeContradicted         Kind = "RangeContradicted"
	BitmapMissing             Kind = "BitmapMissing"
	BitmapEmpty               Kind = "BitmapEmpty"
	BitmapUnreadable          Kind = "BitmapUnreadable"
	BitmapEncrypted           Kind = "BitmapEncrypted"
	BitmapForeignRange        Kind = "BitmapForeignRange"
	StaleBitmap               Kind = "StaleBitmap"
	ObjectUnreadable          Kind = "ObjectUnreadable"
)

type kindTraits struct {
	kind           Kind
	means          string
	flips, unknown bool // see StopsFlip and Unknown
}

// kinds tells what is the same for all findings of a kind, in the order of reports.
var kinds = []kindTraits{
	{ObjectUnreadable, "An object in etcd cannot be decoded, so it is not known which addresses it holds.", true, true},
	{BitmapEncrypted, "The bitmap is encrypted at rest; only an API server with the key can read it.", false, true},
	{BitmapUnreadable, "The bitmap cannot be decoded. A 1.32 API server could not allocate from it, and would not start on it.", false, false},
	{BitmapForeignRange, "The bitmap is not of the range that the API server allocates from.", false, false},
	{SecondaryRangeMislabelled, "The primary and the secondary range are not where the API server looks for them.", true, false},
	{RangeContradicted, "Service default/kubernetes has the first address of the API server's primary range, and it is not that of the range that was given.", true, true},
	{BitmapMissing, "There is no bitmap of this range: a 1.32 API server would build it anew and report every Service.", false, false},
	{BitmapEmpty, "The bitmap was never written to, although Services have addresses in its range.", false, false},
	{StaleBitmap, "The bitmap is a leftover: the API servers allocate from IPAddresses and never look at it again.", false, false},
	{DefaultServiceCIDRMissing, "The ServiceCIDR \"kubernetes\" does not exist.", true, false},
	{DefaultServiceCIDRWrong, "The ServiceCIDR \"kubernetes\" is not the range that the API server allocates from; API servers report that once and never mend it.", true, false},
	{DuplicateClusterIP, "Several Services hold one address. Traffic to it reaches one of them at random.", true, false},
	{InvalidClusterIP, "A Service has a ClusterIP that is no address.", true, false},
	{MisspeltClusterIP, "A ClusterIP is not written as its IPAddress is named, with leading zeros for example. API servers that allocate from IPAddresses delete that IPAddress and write it anew, over and over, and in between another Service may be given the address.", true, false},
	{OutOfRange, "A Service has an address outside of every range. No API server writes an IPAddress for it, and every one reports it.", true, false},
	{IPAddressForeign, "The address of a Service is held by an IPAddress that another manager keeps.", true, false},
	{IPAddressWrongParent, "The IPAddress names another Service than the one that holds the address.", true, false},
	{IPAddressWrongLabels, "The IPAddress lacks the labels by which API servers know their own.", true, false},
	{IPAddressOrphan, "No Service holds the address of this IPAddress.", true, false},
	{IPAddressMissing, "A Service has an address without an IPAddress. The new API server writes it while it starts, one after the other, with a warning event for each.", true, false},
	{MissingBit, "A Service holds an address that the bitmap counts as free: an API server of 1.32 may give it to a second Service, one of 1.33 draws it for a Service that it then refuses.", false, false},
	{LeakedBit, "The bitmap counts an address as taken that no Service holds: the API server refuses it.", false, false},
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind    Kind       `json:"kind"`
	Address netip.Addr `json:"address,omitzero"`
	Objects []string   `json:"objects,omitempty"` // those involved, "Service ns/name"; of several Services the rightful owner comes first
	Detail  string     `json:"detail,omitempty"`  // what was found
	Means   string     `json:"means"`             // what follows from it
	Plan    string     `json:"plan"`              // what will be done about it or has to be done
	Blocks  bool       `json:"blocks,omitempty"`  // nothing is written while this is so
}

// Counts reports whether the finding makes a cluster unclean; a leftover does not.
func (f Finding) Counts() bool { return f.Kind != StaleBitmap }

// bitmapKinds are about what is in etcd alone.
var bitmapKinds = []Kind{
	BitmapEncrypted, BitmapUnreadable, BitmapForeignRange, SecondaryRangeMislabelled, RangeContradicted, BitmapMissing, BitmapEmpty, MissingBit, LeakedBit,
}

// BitmapKinds are the kinds about bitmaps, with what each means; those about a leftover are none.
func BitmapKinds() map[string]string {
	out := map[string]string{}
	for _, k := range bitmapKinds {
		out[string(k)] = kinds[k.rank()].means
	}
	return out
}

// Unknown reports whether because of it something could not be told.
func (f Finding) Unknown() bool { return kinds[f.Kind.rank()].unknown }

// StopsFlip reports whether an API server that begins with IPAddresses would stumble over it.
func (f Finding) StopsFlip() bool { return kinds[f.Kind.rank()].flips }

func (k Kind) rank() int {
	return slices.IndexFunc(kinds, func(t kindTraits) bool { return t.kind == k }) // each has an entry
}

// Printable quotes text that could do more to a terminal or a report than be read: the name of a
// parent in an IPAddress is free text, and so is everything that comes out of etcd.
func Printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// explain says of each finding what follows from it, and brings them into the order of the table.
func explain(all []Finding) {
	for i := range all {
		f := &all[i]
		f.Means, f.Detail = kinds[f.Kind.rank()].means, Printable(f.Detail)
		for j := range f.Objects {
			f.Objects[j] = Printable(f.Objects[j])
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(a.Kind.rank()-b.Kind.rank(), a.Address.Compare(b.Address), slices.Compare(a.Objects, b.Objects), cmp.Compare(a.Detail, b.Detail))
	})
}

// Action is what a step does.
type Action string

// The actions of steps, in the order in which they are taken.
const (
	CreateServiceCIDR  Action = "CreateServiceCIDR"
	ReplaceServiceCIDR Action = "ReplaceServiceCIDR"
	CreateIPAddress    Action = "CreateIPAddress"
	RelabelIPAddress   Action = "RelabelIPAddress"
	ReplaceIPAddress   Action = "ReplaceIPAddress"
	DeleteIPAddress    Action = "DeleteIPAddress"
	RepairBitmap       Action = "RepairBitmap"
)

// Actions are all of them, in this order.
var Actions = []Action{CreateServiceCIDR, ReplaceServiceCIDR, CreateIPAddress, RelabelIPAddress, ReplaceIPAddress, DeleteIPAddress, RepairBitmap}

// Step is one write of a plan. It is guarded: what it changes must still be what the plan saw.
type Step struct {
	Do              Action         `json:"do"`
	Address         netip.Addr     `json:"address,omitzero"`
	Service         string         `json:"service,omitempty"` // the owner that the IPAddress will name, "namespace/name"
	UID             types.UID      `json:"uid,omitempty"`     // of the object that is changed or deleted, as ResourceVersion
	ResourceVersion string         `json:"resourceVersion,omitempty"`
	CIDRs           []netip.Prefix `json:"cidrs,omitempty"` // of the ServiceCIDR
	Key             string         `json:"key,omitempty"`   // of the bitmap
}

// Creates reports whether the step leaves everything that exists as it is.
func (s Step) Creates() bool { return s.Do == CreateIPAddress || s.Do == CreateServiceCIDR }

// Destroys reports whether the step deletes something, if only to write it anew.
func (s Step) Destroys() bool { return !s.Creates() && s.Do != RelabelIPAddress }

// What names the object of a step: an address, the key of a bitmap, or the default ServiceCIDR.
func (s Step) What() string {
	if s.Address.IsValid() {
		return s.Address.String()
	}
	return cmp.Or(s.Key, defaultName)
}

// key names the work of a step: what is done to which object, for which Service.
func (s Step) key() string {
	return strings.Join([]string{string(s.Do), s.Address.String(), s.Service, string(s.UID), s.Key, prefixes(s.CIDRs)}, "|")
}

// aim is what a step leads to, in whatever way or UID: an object for a Service, or for none. The
// same aim twice: another writer changed the object. Another aim: the cluster changed.
func (s Step) aim() string { return s.What() + "|" + s.Service }

// object is what a step writes, the default ServiceCIDR or an IPAddress.
func (s Step) object() client.Object {
	if s.Address.IsValid() {
		return s.ipAddress()
	}
	spec := networkingv1.ServiceCIDRSpec{CIDRs: strings.Split(prefixes(s.CIDRs), ",")}
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: defaultName}, Spec: spec}
}

func (s Step) ipAddress() *networkingv1.IPAddress {
	namespace, name, _ := strings.Cut(s.Service, "/")
	return upstream.NewIPAddress(s.Address, types.NamespacedName{Namespace: namespace, Name: name})
}

// revision is the ModRevision of the object that the plan saw; a resourceVersion is nothing else.
func (s Step) revision() int64 {
	n, _ := strconv.ParseInt(s.ResourceVersion, 10, 64)
	return n
}

func (s Step) validate() error {
	namespace, name, _ := strings.Cut(s.Service, "/")
	onCIDR, onIPAddress := strings.HasSuffix(string(s.Do), "ServiceCIDR"), strings.HasSuffix(string(s.Do), "IPAddress")
	switch {
	case !slices.Contains(Actions, s.Do):
		return fmt.Errorf("there is no action %q", s.Do)
	case !s.Creates() && s.Do != RepairBitmap && (s.UID == "" || s.ResourceVersion == ""):
		return fmt.Errorf("%s needs the uid and the resourceVersion of its object", s.Do)
	case onCIDR != (len(s.CIDRs) > 0):
		return fmt.Errorf("%s and a list of cidrs belong together", s.Do)
	case onIPAddress != s.Address.IsValid():
		return fmt.Errorf("%s and an address: an action on an IPAddress has one, others have none", s.Do)
	case (s.Do == CreateIPAddress || s.Do == ReplaceIPAddress) && (namespace == "" || name == ""):
		return fmt.Errorf("%s needs the Service that it is for, as namespace/name", s.Do)
	case (s.Do == RepairBitmap) != (s.Key != ""):
		return fmt.Errorf("%s and a key: RepairBitmap has one, others have none", s.Do)
	default:
		return nil
	}
}
