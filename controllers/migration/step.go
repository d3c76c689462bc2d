package migration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

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
	Do      Action     `json:"do"`
	Address netip.Addr `json:"address,omitzero"`
	// Service is the owner that the IPAddress will name.
	Service NamespacedName `json:"service,omitzero"`
	// UID and ResourceVersion are those of the object that is changed or deleted.
	UID             types.UID `json:"uid,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	// CIDRs are those of the ServiceCIDR.
	CIDRs []netip.Prefix `json:"cidrs,omitempty"`
	// Key is that of the bitmap.
	Key string `json:"key,omitempty"`
}

// Creates reports whether the step leaves everything that exists as it is.
func (s Step) Creates() bool { return s.Do == CreateIPAddress || s.Do == CreateServiceCIDR }

// Destroys reports whether the step deletes something, if only to write it anew.
func (s Step) Destroys() bool {
	switch s.Do {
	case ReplaceServiceCIDR, ReplaceIPAddress, DeleteIPAddress, RepairBitmap:
		return true
	default:
		return false
	}
}

// validate reports what a step lacks that was read from a file.
func (s Step) validate() error {
	onObject := s.Do == RelabelIPAddress || s.Do == ReplaceIPAddress || s.Do == DeleteIPAddress || s.Do == ReplaceServiceCIDR
	switch {
	case !slices.Contains(Actions, s.Do):
		return fmt.Errorf("there is no action %q", s.Do)
	case onObject && (s.UID == "" || s.ResourceVersion == ""):
		return fmt.Errorf("%s needs the uid and the resourceVersion of its object", s.Do)
	case (s.Do == CreateServiceCIDR || s.Do == ReplaceServiceCIDR) != (len(s.CIDRs) > 0):
		return fmt.Errorf("%s and a list of cidrs belong together", s.Do)
	case strings.HasSuffix(string(s.Do), "IPAddress") != s.Address.IsValid():
		return fmt.Errorf("%s and an address: an action on an IPAddress has one, others have none", s.Do)
	case (s.Do == CreateIPAddress || s.Do == ReplaceIPAddress) && s.Service == (NamespacedName{}):
		return fmt.Errorf("%s needs the Service that it is for", s.Do)
	case (s.Do == RepairBitmap) != (s.Key != ""):
		return fmt.Errorf("%s and a key: RepairBitmap has one, others have none", s.Do)
	default:
		return nil
	}
}

// key names the work of a step: what is done to which object, for whom.
func (s Step) key() string {
	return strings.Join([]string{string(s.Do), s.Address.String(), s.Service.String(), string(s.UID), s.Key, prefixes(s.CIDRs)}, "|")
}

// NamespacedName is a name that is written as "namespace/name" in plans.
type NamespacedName types.NamespacedName

// String implements fmt.Stringer.
func (n NamespacedName) String() string { return types.NamespacedName(n).String() }

// MarshalText implements encoding.TextMarshaler.
func (n NamespacedName) MarshalText() ([]byte, error) {
	if n == (NamespacedName{}) {
		return nil, nil
	}
	return []byte(n.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *NamespacedName) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	namespace, name, ok := strings.Cut(string(text), "/")
	if !ok || namespace == "" || name == "" {
		return fmt.Errorf("%q is no namespace/name", text)
	}
	*n = NamespacedName{Namespace: namespace, Name: name}
	return nil
}
