package console

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// mostAddresses bounds what a page is sent: it has all of them in its memory.
const mostAddresses = 100_000

// addressList is what the page lists. Of is how many there are, also where Rows has fewer.
type addressList struct {
	Of   int       `json:"of"`
	Rows []address `json:"rows"`
}

// address is a row of the addresses, as short as 20,000 of them have to be.
type address struct {
	Address string `json:"address"`
	State   string `json:"state"`
	// Parents have the address, as `why` takes them: service/NAMESPACE/NAME. For an address that no
	// Service has they are what its IPAddress names: policy/NAME, or service/NAMESPACE/NAME.
	Parents []string `json:"parents,omitempty"`
	// Note is what else there is to say: for which Service, which Service had it.
	Note   string   `json:"note,omitempty"`
	Ranges []string `json:"ranges,omitempty"`
	Band   string   `json:"band,omitempty"`
	Policy string   `json:"policy,omitempty"`
	Wrong  []string `json:"wrong,omitempty"`
	// Since is when its IPAddress was created, in seconds; 0 without one.
	Since int64 `json:"since,omitempty"`
}

// listed lists addresses. All pages that ask within a second are sent one body: to write JSON of
// 100,000 rows takes longer than to gather them.
func listed(ctx context.Context, addresses func() (addresses, error)) Source {
	last := remembered(ctx, time.Second, func(context.Context) (body, error) {
		all, err := addresses()
		if err != nil {
			return body{}, err
		}
		return newBody(all.list)
	})
	return func(context.Context, url.Values) (any, error) { return last() }
}

// addresses are what the page is sent of all addresses, and those with which something is wrong.
type addresses struct {
	list  addressList
	wrong []netip.Addr
}

// newAddresses goes through all addresses by each, and keeps rows of the first.
func newAddresses(ctx context.Context, most int, each func(context.Context, func(view.Address) error) error) (addresses, error) {
	out := addresses{list: addressList{Rows: []address{}}}
	err := each(ctx, func(a view.Address) error {
		if out.list.Of++; out.list.Of <= most {
			out.list.Rows = append(out.list.Rows, newAddress(a))
		}
		if len(a.Wrong) > 0 {
			out.wrong = append(out.wrong, a.Address)
		}
		return nil
	})
	return out, err
}

func newAddress(a view.Address) address {
	out := address{Address: a.Address.String(), State: a.State, Ranges: a.ServiceCIDRs, Band: a.Band, Policy: a.Policy, Wrong: a.Wrong}
	for _, name := range a.Services {
		out.Parents = append(out.Parents, "service/"+name)
	}
	if a.IPAddress != nil {
		out.Since = a.IPAddress.CreationTimestamp.Unix()
		if ref := a.IPAddress.Spec.ParentRef; ref != nil && len(a.Services) == 0 {
			out.Parents = []string{parent(ref)}
		}
	}
	switch {
	case a.LastService != "":
		out.Note = "was service/" + a.LastService
	case a.ReservationFor != "":
		out.Note = a.Reservation + " for service/" + a.ReservationFor
	case a.Reservation != "":
		out.Note = a.Reservation
	}
	return out
}

// kinds are short words for what an IPAddress names.
var kinds = map[string]string{"services": "service", "servicecidrpolicies": "policy"}

func parent(ref *networkingv1.ParentReference) string {
	kind, known := kinds[ref.Resource]
	if !known {
		kind = ref.Resource
	}
	if ref.Namespace == metav1.NamespaceNone {
		return kind + "/" + ref.Name
	}
	return strings.Join([]string{kind, ref.Namespace, ref.Name}, "/")
}
