package additional

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// world is everything that is known about one Service and its additional addresses. decide reads nothing else.
type world struct {
	now  time.Time
	name types.NamespacedName
	// service is nil when there is none.
	service *service
	// held are the IPAddresses of ours that name the Service, in no order.
	held []held
	// offers are what can be had, for every slot of the wish that may be filled.
	offers map[slot]offer
}

// service is what matters of a Service.
type service struct {
	uid      types.UID
	deleting bool
	wish     steering.AdditionalRequest
}

// slot is a place for one address: of one family, from one ServiceCIDR.
type slot struct {
	serviceCIDR string
	is4         bool
}

func (s slot) family() string {
	if s.is4 {
		return "IPv4"
	}
	return "IPv6"
}

// held is an additional IPAddress.
type held struct {
	address netip.Addr
	uid     types.UID
	// serviceCIDR and service (a UID) are who it was drawn from, and for.
	serviceCIDR string
	service     types.UID
}

func (h held) slot() slot { return slot{h.serviceCIDR, h.address.Is4()} }

// offer says whether an address can be had for a slot. The zero value: the ServiceCIDR does not exist.
type offer struct {
	exists, deleting, ready bool
	// ranges are those of the family.
	ranges []allocator.Range
	// refusal says why this Service gets none; otherwise tiers are what to draw from. Both are known of empty slots only.
	refusal string
	tiers   []*allocator.Tier
}
