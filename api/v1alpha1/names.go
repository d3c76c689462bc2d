package v1alpha1

// Prefix of every label, annotation, finalizer and condition type of the operator.
const Prefix = "clusterip-operator.io"

const (
	// LabelBand on an IPAddress says in which band of its range the address lies (KEP-3070):
	// BandStatic or BandDynamic. It is information for people and selectors; nothing depends on it.
	LabelBand = Prefix + "/band"
	// BandStatic is the lower band, kept for addresses that users choose.
	BandStatic = "static"
	// BandDynamic is the upper band, from which addresses are drawn first.
	BandDynamic = "dynamic"
)

const (
	// ManagedByAPIServer is the managed-by label of IPAddresses that kube-apiserver allocates.
	ManagedByAPIServer = "ipallocator.k8s.io"
	// ManagedByOperator is the managed-by label of IPAddresses that this operator keeps for itself.
	ManagedByOperator = Prefix
	// LabelPurpose on an IPAddress with ManagedByOperator says what it is kept for: a purpose below.
	// PurposeSecond and PurposeHandover stand on those of the API server.
	LabelPurpose = Prefix + "/purpose"
	// PurposeReservation keeps an address for a future Service or from all. The parent is the policy.
	PurposeReservation = "reservation"
	// PurposeCooling keeps an address that was freed a short while ago. The parent is the policy.
	PurposeCooling = "cooling"
	// PurposeAdditional is an address of a Service beside its ClusterIPs. The parent is the Service.
	PurposeAdditional = "additional"
)

const (
	// AnnotationLastService on a cooling IPAddress is the Service that had the address,
	// namespace/name. It alone may have it back before its time, by asking for it.
	AnnotationLastService = Prefix + "/last-service"
	// AnnotationReleased on a cooling IPAddress is when it was freed, RFC 3339 with nanoseconds, UTC.
	AnnotationReleased = Prefix + "/released-at"
	// AnnotationReservation on an IPAddress is the name of the reservation in the policy's spec.
	AnnotationReservation = Prefix + "/reservation"
	// AnnotationServiceCIDR on an additional IPAddress is the ServiceCIDR that was asked for.
	AnnotationServiceCIDR = Prefix + "/service-cidr"
	// AnnotationServiceUID on an additional IPAddress is the UID of its Service: names are reused.
	AnnotationServiceUID = Prefix + "/service-uid"
	// AnnotationAdditionalFrom on a Service asks, where a policy allows it, for one more address of
	// each family of the Service from each of the named ServiceCIDRs: names, four at most and 253
	// characters, separated by commas.
	AnnotationAdditionalFrom = Prefix + "/additional-ips-from"
)

// What a Service asks of the node agent about how connections are spread over its endpoints.
const (
	// AnnotationScheduler on a Service is the name of a scheduler, as IPVS has them, or random: it
	// chooses an endpoint for each new connection.
	AnnotationScheduler = Prefix + "/scheduler"
	// AnnotationKubeRouterScheduler is that of kube-router, read if AnnotationScheduler is absent.
	AnnotationKubeRouterScheduler = "kube-router.io/service.scheduler"
	// AnnotationEndpointWeights on a Service says what each endpoint weighs: WeightsByCores, or
	// entries label=value:weight with commas between; the first that fits the endpoint's node counts.
	AnnotationEndpointWeights = Prefix + "/endpoint-weights"
	// WeightsByCores has an endpoint weigh as much as its node has cores.
	WeightsByCores = "cores"
)

// What renumbering writes (kubectl clusterip renumber). ClusterIPs change only through type
// ExternalName: two updates exchange them; the old address is a former one until no client uses it.
const (
	// FinalizerFormer on an IPAddress keeps an address that the API server lets go of until it is not
	// needed: no other Service gets it, and proxies go on serving it for the Service that it names.
	FinalizerFormer = Prefix + "/former-address"
	// AnnotationFormerIPs on a Service are its former addresses, separated by commas.
	AnnotationFormerIPs = Prefix + "/former-ips"
	// AnnotationRenumbering on a Service says that it is of type ExternalName for the moment between
	// the two updates: JSON with what the second one restores. The Service's owner may write it too:
	// the command believes only what ConditionRenumbering proves, all other code asks BeingRenumbered.
	AnnotationRenumbering = Prefix + "/renumbering"
	// ConditionRenumbering in the status of a Service, which users who may write the Service may not
	// write, has the SHA-256 of AnnotationRenumbering in its message. It stays as long as that.
	ConditionRenumbering = Prefix + "/Renumbering"
	// ManagerRenumbering writes all of that, and the Services that are renumbered.
	ManagerRenumbering = "clusterip-operator-renumbering"
)

// What renumbering writes where a second Service keeps the old address (--keep=service).
const (
	// PurposeSecond is the LabelPurpose of a second Service and of the IPAddress that names it, which
	// is the API server's like that of any ClusterIP.
	PurposeSecond = "second-service"
	// PurposeHandover is the LabelPurpose of an IPAddress that is deleted at this moment, so that
	// another Service of the same owner gets the address.
	PurposeHandover = "handover"
	// AnnotationSecondOf on both is the Service that has or had the address first: name/UID. On the
	// Service it only tells; its IPAddress, which no owner of a Service may write, proves it.
	AnnotationSecondOf = Prefix + "/second-of"
	// AnnotationHandover on a second Service is what only the command that created it can know.
	AnnotationHandover = Prefix + "/handover"
	// HandoverName begins the name of a ValidatingAdmissionPolicy, and its binding, that keeps an
	// address for the two Services between which it is handed over.
	HandoverName = ManagerRenumbering
)

// AnnotationCreatedFor on a ServiceCIDR names the ServiceCIDRPolicy for whose growth the operator
// created it. The clean-up leaves it: the range is in use.
const AnnotationCreatedFor = Prefix + "/created-for"

// LabelReserve on a ServiceCIDRPolicy is the --name of `kubectl clusterip reserve`, which keeps the
// policy's reservations up to date.
const LabelReserve = Prefix + "/reserve"

// AnnotationProbe on a headless Service that is created as a dry run makes the webhook answer with
// a warning: the proof that the API server reaches it.
const AnnotationProbe = Prefix + "/probe"

const (
	// FinalizerUpstream is the ServiceCIDR finalizer that kube-controller-manager adds and removes.
	FinalizerUpstream = "networking.k8s.io/service-cidr-finalizer"
	// FinalizerServiceCIDR holds a ServiceCIDR while its removal would leave addresses without range.
	FinalizerServiceCIDR = Prefix + "/servicecidr-protection"
)

// DefaultServiceCIDR is the ServiceCIDR of the API server's --service-cluster-ip-range (KEP-1880).
const DefaultServiceCIDR = "kubernetes"

// DefaultNodePortRange is kube-apiserver's --service-node-port-range where that flag is not set.
const DefaultNodePortRange = "30000-32767"

// DefaultNearlyFullPercent is nearlyFull.freePercent of a manager whose configuration has none.
const DefaultNearlyFullPercent = 10

// ConditionMigrated on the default ServiceCIDR is True when every ClusterIP has its IPAddress: an
// API server that allocates from IPAddresses finds nothing to repair. The clean-up removes it.
const ConditionMigrated = Prefix + "/Migrated"

// AnnotationUsage on a ServiceCIDR counts its used addresses: a ServiceCIDRUsage in JSON, for
// clients that would otherwise list all IPAddresses. It tells at once that a band is full, within a
// minute what moved by a hundredth of a band, and the rest within ten. The clean-up removes it.
const AnnotationUsage = Prefix + "/usage"

// ExclusiveName is the name of the three objects by which the API server itself keeps Services out
// of the ranges of policies with enforcement: APIServer: a ValidatingAdmissionPolicy, which comes
// with the manifests, the ConfigMap that it reads in the operator's namespace, and their binding.
const ExclusiveName = "clusterip-operator-exclusive"

// Condition types on a ServiceCIDR. All are abnormal when True, and removed by the clean-up.
const (
	// ConditionDeletionBlocked names the addresses that keep a ServiceCIDR from being deleted.
	ConditionDeletionBlocked = Prefix + "/DeletionBlocked"
	// ConditionNearlyFull warns before a band runs out of free addresses.
	ConditionNearlyFull = Prefix + "/NearlyFull"
	// ConditionDynamicBandFull is True when no free address is left in the dynamic band of a range.
	ConditionDynamicBandFull = Prefix + "/DynamicBandFull"
	// ConditionStaticBandFull is True when no free address is left in the static band of a range.
	ConditionStaticBandFull = Prefix + "/StaticBandFull"
	// ConditionNetworkOverlap names the node, pod and declared networks that a range overlaps.
	ConditionNetworkOverlap = Prefix + "/NetworkOverlap"
	// ConditionDefaultRangeMismatch: the default ServiceCIDR differs from the API server's own range.
	ConditionDefaultRangeMismatch = Prefix + "/DefaultRangeMismatch"
	// ConditionWritesRefused is True on the default ServiceCIDR while the API server refuses the
	// operator's writes of IPAddresses, of whatever range.
	ConditionWritesRefused = Prefix + "/WritesRefused"
)

// Field managers of writes, one for each controller, so that each owns what it wrote and no more.
const (
	// ManagerServiceCIDR writes finalizers and conditions of ServiceCIDRs.
	ManagerServiceCIDR = "clusterip-operator-servicecidr"
	// ManagerIPAddress creates IPAddresses, and writes lost labels back.
	ManagerIPAddress = "clusterip-operator-ipaddress"
	// ManagerBand writes LabelBand.
	ManagerBand = "clusterip-operator-band"
	// ManagerDefaultRange creates the default ServiceCIDR where the API server does not. By this name
	// a later start recognises its own work.
	ManagerDefaultRange = "clusterip-operator-default-servicecidr"
	// ManagerPolicy writes reservations and cooling addresses, and the status of ServiceCIDRPolicies.
	ManagerPolicy = "clusterip-operator-policy"
	// ManagerEnforcement writes ConfigMap and binding ExclusiveName, conditions Enforced and Violated.
	ManagerEnforcement = "clusterip-operator-enforcement"
	// ManagerGrowth creates ServiceCIDRs for growth, and the conditions Growing and GrowthExhausted.
	ManagerGrowth = "clusterip-operator-growth"
	// ManagerAdmission writes refusals into the status of ServiceCIDRPolicies.
	ManagerAdmission = "clusterip-operator-admission"
	// ManagerAdditional writes additional IPAddresses.
	ManagerAdditional = "clusterip-operator-additional"
	// ManagerDualStack writes spec.ipFamilies of headless Services that gain a family.
	ManagerDualStack = "clusterip-operator-dual-stack"
	// ManagerReserve writes the ServiceCIDRPolicies of `kubectl clusterip reserve --apply`.
	ManagerReserve = "clusterip-operator-reserve"
	// ManagerHistory writes the ConfigMaps of the history of addresses.
	ManagerHistory = "clusterip-operator-history"
	// ManagerMigration writes what a migration creates, and ConditionMigrated.
	ManagerMigration = "clusterip-operator-migration"
)
