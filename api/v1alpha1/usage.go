package v1alpha1

// ServiceCIDRUsage is what AnnotationUsage holds.
type ServiceCIDRUsage struct {
	// Ranges are those of spec.cidrs, in that order.
	Ranges []RangeUsage `json:"ranges"`
}

// RangeUsage counts the used addresses of a range by band (KEP-3070). A range of at most 16
// addresses has no static ones.
type RangeUsage struct {
	CIDR    string    `json:"cidr"`
	Static  BandUsage `json:"static"`
	Dynamic BandUsage `json:"dynamic"`
}

// BandUsage counts the addresses of a band by state, as the metric clusterip_operator_addresses
// does. Size is the sum of all states, and at most 2^63-1.
type BandUsage struct {
	Size      int64 `json:"size"`
	Allocated int64 `json:"allocated"`
	Reserved  int64 `json:"reserved,omitempty"`
	Cooling   int64 `json:"cooling,omitempty"`
	Free      int64 `json:"free"`
	// GrowthPerDay is by how many addresses a day the use grew over the last hours, to two digits; nil
	// while unknown, for half an hour after a start.
	GrowthPerDay *int64 `json:"growthPerDay,omitempty"`
}
