package cluster

// Names as users see them. They are written out here and not taken from the operator's code, so that a name which changes by
// mistake is noticed.
const (
	// OurFinalizer holds a ServiceCIDR as long as an address needs it.
	OurFinalizer = "clusterip-operator.io/servicecidr-protection"
	// UpstreamFinalizer is kube-controller-manager's.
	UpstreamFinalizer = "networking.k8s.io/service-cidr-finalizer"

	// BandLabel tells the band of an IPAddress.
	BandLabel = "clusterip-operator.io/band"

	// Ready is upstream's condition, the others are ours: True means that something is wrong.
	Ready                = "Ready"
	DeletionBlocked      = "clusterip-operator.io/DeletionBlocked"
	NearlyFull           = "clusterip-operator.io/NearlyFull"
	DynamicBandFull      = "clusterip-operator.io/DynamicBandFull"
	StaticBandFull       = "clusterip-operator.io/StaticBandFull"
	NetworkOverlap       = "clusterip-operator.io/NetworkOverlap"
	DefaultRangeMismatch = "clusterip-operator.io/DefaultRangeMismatch"
	// Migrated tells how far a cluster is on its way from the bitmap.
	Migrated = "clusterip-operator.io/Migrated"

	// operatorReporter begins the names under which our controllers send events.
	operatorReporter = "clusterip-operator"
)
