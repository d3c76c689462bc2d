package policyapi_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Beginnings of messages that several specs want.
const (
	sayForm      = "give an address (10.96.0.10), a range of addresses"
	sayShort     = "write the address in its shortest form"
	sayFirst     = "write the CIDR from its first address on"
	sayBoth      = "write both addresses in their shortest form"
	sayOneFamily = "give a range whose ends are of one family"
	sayLower     = "give the lower address of the range first"
	saySmaller   = "a policy keeps 1,024 addresses at most: make the CIDR /22 or smaller (IPv4), /118 or smaller (IPv6)"
	sayService   = "give the namespace and the name of a Service"
	sayLabel     = "give a name of lower-case letters, digits and '-'"
	sayCIDRName  = "give the name of a ServiceCIDR"
	sayDuration  = "give a duration from 0s to 720h (30 days)"
	sayLabels    = "set serviceCIDRSelector.matchLabels, without matchExpressions"
	sayCIDR      = "from its first address on, in the shortest form and in lower case"
	sayWithin    = "give a duration from 1m to 720h"
	sayNoRanges  = "set serviceCIDRs or serviceCIDRSelector too, or remove it"
)

// Fields that messages are about.
const (
	coolDown        = "spec.coolDown"
	reservedAddress = "spec.reservations[0].address"
	reservedName    = "spec.reservations[0].name"
	reservedFor     = "spec.reservations[0].for"
	firstName       = "spec.serviceCIDRs[0]"
	supernet        = "spec.growth.from[0].cidr"
	blockLength     = "spec.growth.from[0].prefixLength"
)

// keep is the spec of a policy with one reservation.
func keep(address string) string { return keepAs("r", address) }

func keepAs(name, address string) string {
	return fmt.Sprintf(`{reservations: [{name: %q, address: %q}]}`, name, address)
}

func keepFor(service string) string {
	return fmt.Sprintf(`{reservations: [{name: r, address: 10.96.0.10, for: %q}]}`, service)
}

func coolingFor(duration string) string {
	return fmt.Sprintf(`{serviceCIDRs: [a], coolDown: %q}`, duration)
}

// growing is a policy that grows, from more than one supernet if more of them are in the text.
func growing(from, more string) string {
	return fmt.Sprintf(`{serviceCIDRSelector: {matchLabels: {tenant: a}}, growth: {from: [%s]%s}}`, from, more)
}

func cutFrom(cidr string, prefixLength int) string {
	return growing(fmt.Sprintf(`{cidr: %q, prefixLength: %d}`, cidr, prefixLength), "")
}

const supernets = `{cidr: 10.128.0.0/10, prefixLength: 16}, {cidr: "fd00:10:128::/48", prefixLength: 112}`

func names(name string) string { return fmt.Sprintf(`{serviceCIDRs: [%q]}`, name) }

// A mistake has one message, and that one says what to do.
var _ = DescribeTable("What the API server refuses",
	func(ctx SpecContext, spec, field, message string) {
		wrong := complaints(propose(ctx, admin, spec))
		Expect(wrong).To(HaveLen(1))
		Expect(wrong[0].Field).To(Equal(field))
		Expect(wrong[0].Message).To(ContainSubstring(message))
	},
	Entry("ranges by name and by label", `{serviceCIDRs: [a], serviceCIDRSelector: {}}`, "spec.serviceCIDRSelector",
		"set serviceCIDRs or serviceCIDRSelector, not both"),
	Entry("exclusive without ranges", `{exclusive: true}`, "spec.exclusive", sayNoRanges),
	Entry("enforcement by somebody unknown", `{serviceCIDRs: [tenant-a], exclusive: true, enforcement: Kubelet}`, "spec.enforcement", "supported values"),
	Entry("a cool-down without ranges", `{coolDown: 10m}`, coolDown, sayNoRanges),
	Entry("another word for an allocation", `{serviceCIDRs: [a], allocation: Never}`, "spec.allocation", `supported values: "Automatic", "ByRequest", "Cordoned"`),
	Entry("an allocation in other letters", `{serviceCIDRs: [a], allocation: cordoned}`, "spec.allocation", `supported values: "Automatic", "ByRequest", "Cordoned"`),
	Entry("an empty allocation", `{serviceCIDRs: [a], allocation: ""}`, "spec.allocation", "supported values"),
	Entry("a cordon without ranges", `{allocation: Cordoned}`, "spec.allocation", sayNoRanges),
	Entry("by request without ranges", `{allocation: ByRequest, reservations: [{name: r, address: "fd00:10:96::a"}]}`, "spec.allocation", sayNoRanges),
	Entry("another word for full", `{onFull: Retry}`, "spec.onFull", `supported values: "Fail", "Fallback"`),

	Entry("a cool-down that is no duration", coolingFor("soon"), coolDown, sayDuration),
	Entry("a cool-down without a unit", coolingFor("90"), coolDown, sayDuration),
	Entry("a negative cool-down", coolingFor("-1s"), coolDown, sayDuration),
	Entry("a cool-down in days, which Go cannot read", coolingFor("1d"), coolDown, sayDuration),
	Entry("a cool-down in words, which other parsers can read", coolingFor("10 minutes"), coolDown, sayDuration),
	Entry("a cool-down of a moment more than 30 days", coolingFor("720h0m0.001s"), coolDown, sayDuration),
	Entry("a cool-down that no counter holds", coolingFor("9999999999h"), coolDown, sayDuration),

	Entry("a ServiceCIDR with an upper-case letter", names("Tenant"), firstName, sayCIDRName),
	Entry("a ServiceCIDR without a name", names(""), firstName, sayCIDRName),
	Entry("a CIDR where the name of a ServiceCIDR belongs", names("10.96.0.0/16"), firstName, sayCIDRName),
	Entry("a name of 254 letters", names(strings.Repeat("a", 254)), firstName, "may not be more than 253"),
	Entry("the same ServiceCIDR twice", `{serviceCIDRs: [a, b, a]}`, "spec.serviceCIDRs[2]", "Duplicate value"),

	Entry("two reservations of one name", `{reservations: [{name: r, address: 10.96.0.10}, {name: r, address: "fd00:10:96::a"}]}`,
		"spec.reservations[1]", "Duplicate value"),
	Entry("a reservation without a name", keepAs("", "10.96.0.10"), reservedName, sayLabel),
	Entry("a reservation with a dot in its name", keepAs("api.v2", "10.96.0.10"), reservedName, sayLabel),
	Entry("a reservation with 64 letters", keepAs(strings.Repeat("a", 64), "10.96.0.10"), reservedName, "may not be more than 63"),
	Entry("a reservation of nothing", `{reservations: [{name: r}]}`, reservedAddress, "Required value"),

	Entry("the name of a host", keep("cart.shop.svc"), reservedAddress, sayForm),
	Entry("a byte of IPv4 too much", keep("10.96.0.256"), reservedAddress, sayForm),
	Entry("an octal look of IPv4", keep("10.96.0.010"), reservedAddress, sayForm),
	Entry("a zone of IPv6", keep("fe80::1%eth0"), reservedAddress, sayForm),
	Entry("IPv4 inside of IPv6", keep("::ffff:10.96.0.10"), reservedAddress, sayForm),
	Entry("a space", keep("10.96.0.10 - 10.96.0.19"), reservedAddress, sayForm),
	Entry("a range without an end", keep("10.96.0.10-"), reservedAddress, sayForm),
	Entry("a range without a beginning", keep("-fd00:10:96::a"), reservedAddress, sayForm),
	Entry("a range with a short end, as scanners write it", keep("10.96.0.10-19"), reservedAddress, sayForm),
	Entry("a prefix of IPv4 too long", keep("10.96.0.0/33"), reservedAddress, sayForm),
	Entry("a prefix of IPv6 too long", keep("fd00::/129"), reservedAddress, sayForm),

	Entry("zeros of IPv6", keep("fd00:10:96:0::a"), reservedAddress, sayShort),
	Entry("upper case of IPv6", keep("fd00:10:96::A"), reservedAddress, sayShort),
	Entry("zeros in a CIDR of IPv6", keep("fd00:10:96:0::/126"), reservedAddress, sayFirst),
	Entry("a CIDR of IPv4 from its middle", keep("10.96.0.10/28"), reservedAddress, sayFirst),
	Entry("a CIDR of IPv6 from its middle", keep("fd00:10:96::a/124"), reservedAddress, sayFirst),
	Entry("zeros at the beginning of a range", keep("fd00:10:96:0::a-fd00:10:96::f"), reservedAddress, sayBoth),

	Entry("more than 1,024 addresses of IPv4", keep("10.96.0.0/21"), reservedAddress, saySmaller),
	Entry("more than 1,024 addresses of IPv6", keep("fd00:10:96::/117"), reservedAddress, saySmaller),
	Entry("all of IPv4", keep("0.0.0.0/0"), reservedAddress, saySmaller),
	Entry("all of IPv6", keep("::/0"), reservedAddress, saySmaller),

	Entry("a range from IPv4 to IPv6", keep("10.96.0.10-fd00:10:96::a"), reservedAddress, sayOneFamily),
	Entry("a range of IPv4 backwards", keep("10.96.0.19-10.96.0.10"), reservedAddress, sayLower),
	Entry("a range of IPv4 backwards, though not as text", keep("10.96.0.100-10.96.0.20"), reservedAddress, sayLower),
	Entry("a range of IPv6 backwards", keep("fd00:10:96::f-fd00:10:96::a"), reservedAddress, sayLower),

	Entry("a Service without its namespace", keepFor("cart"), reservedFor, sayService),
	Entry("a namespace without a Service", keepFor("shop/"), reservedFor, sayService),
	Entry("a Service as a path", keepFor("shop/services/cart"), reservedFor, sayService),
	Entry("a Service with an upper-case letter", keepFor("shop/Cart"), reservedFor, sayService),
	Entry("a Service with 64 letters", keepFor("shop/"+strings.Repeat("a", 64)), reservedFor, sayService),
	Entry("an empty Service", keepFor(""), reservedFor, sayService),

	Entry("growth of ranges by name", `{serviceCIDRs: [a], growth: {from: [`+supernets+`]}}`, "spec.growth", sayLabels),
	Entry("growth without ranges", `{growth: {from: [`+supernets+`]}}`, "spec.growth", sayLabels),
	Entry("growth of all ranges", `{serviceCIDRSelector: {}, growth: {from: [`+supernets+`]}}`, "spec.growth", sayLabels),
	Entry("growth by expressions, which no labels follow from",
		`{serviceCIDRSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}, growth: {from: [`+supernets+`]}}`, "spec.growth", sayLabels),
	Entry("growth from nothing", growing("", ""), "spec.growth.from", "at least 1"),
	Entry("a supernet that is an address", cutFrom("10.128.0.0", 16), supernet, sayCIDR),
	Entry("a supernet with bits behind its prefix", cutFrom("10.128.0.1/10", 16), supernet, sayCIDR),
	Entry("a supernet of IPv6 in a long form", cutFrom("fd00:10:0128::/48", 112), supernet, sayCIDR),
	Entry("a supernet of IPv4 inside of IPv6", cutFrom("::ffff:10.128.0.0/106", 112), supernet, sayCIDR),
	Entry("blocks larger than the supernet", cutFrom("10.128.0.0/10", 9), blockLength, "give a prefixLength that is not shorter"),
	Entry("blocks of IPv4 without a usable address", cutFrom("10.128.0.0/10", 31), blockLength, "from 8 to 30"),
	Entry("blocks of IPv6 that API servers do not take", cutFrom("fd00:10:128::/48", 63), blockLength, "from 64 to 126"),
	Entry("blocks larger than /8", cutFrom("8.0.0.0/6", 7), blockLength, "greater than or equal to 8"),
	Entry("a share beyond all", growing(supernets, `, whenFreePercent: 101`), "spec.growth.whenFreePercent", "less than or equal to 100"),
	Entry("a forecast of no time", growing(supernets, `, whenFullWithin: 59s`), "spec.growth.whenFullWithin", sayWithin),
	Entry("a forecast in days, which Go cannot read", growing(supernets, `, whenFullWithin: 3d`), "spec.growth.whenFullWithin", sayWithin),
	Entry("no ranges at most", growing(supernets, `, maxRanges: 0`), "spec.growth.maxRanges", "greater than or equal to 1"),
	Entry("a reserved network that is none", growing(supernets, `, reservedNetworks: [10.130.0.0]`), "spec.growth.reservedNetworks[0]", sayCIDR),
)

var _ = It("What the API server refuses: a policy without a spec", func(ctx SpecContext) {
	policy := draft("{}")
	delete(policy.Object, "spec")
	wrong := complaints(admin.Create(ctx, policy))
	Expect(wrong).To(HaveLen(1))
	Expect(wrong[0].Field).To(Equal("spec"))
})

var _ = DescribeTable("What the API server accepts",
	func(ctx SpecContext, spec string) { Expect(propose(ctx, admin, spec)).To(Succeed()) },
	Entry("a policy that does nothing", `{}`),
	Entry("ranges by name", `{serviceCIDRs: [tenant-a, b.example.com, "0"], exclusive: true, coolDown: 24h}`),
	Entry("exclusive ranges that the API server enforces", `{serviceCIDRs: [tenant-a], exclusive: true, enforcement: APIServer}`),
	Entry("exclusive ranges that the webhook enforces", `{serviceCIDRs: [tenant-a], exclusive: true, enforcement: Webhook}`),
	Entry("ranges that are not exclusive, with the default", `{serviceCIDRs: [tenant-a], enforcement: APIServer}`),
	Entry("ranges that are not exclusive, with what was the default", `{serviceCIDRs: [tenant-a], enforcement: Webhook}`),
	Entry("ranges by request", `{serviceCIDRs: [tenant-a], exclusive: true, allocation: ByRequest}`),
	Entry("all ranges cordoned", `{serviceCIDRSelector: {}, allocation: Cordoned, enforcement: Webhook}`),
	Entry("no ranges, in so many words given out as always", `{allocation: Automatic}`),
	Entry("ranges by label", `{serviceCIDRSelector: {matchLabels: {tenant: a}}, exclusive: true, coolDown: 24h}`),
	Entry("all ranges", `{serviceCIDRSelector: {}, exclusive: true, coolDown: 24h}`),
	Entry("an empty list beside a selector", `{serviceCIDRs: [], serviceCIDRSelector: {}}`),
	Entry("a name of 253 letters", names(strings.Repeat("a", 253))),
	Entry("Services by their labels and those of their namespaces", `{serviceCIDRs: [a], namespaceSelector: {matchLabels: {tenant: a}},
		serviceSelector: {matchExpressions: [{key: tier, operator: In, values: [front, back]}]}}`),
	Entry("the ends of the priorities", `{serviceCIDRs: [a], priority: -2147483648}`),

	Entry("growth of both families with all that can be said", growing(supernets,
		`, whenFreePercent: 100, whenFullWithin: 1h30m, maxRanges: 1024, dryRun: true, reservedNetworks: [10.130.0.0/16, "fd00:10:128:1::/64"]`)),
	Entry("growth by one block", cutFrom("10.128.0.0/30", 30)),
	Entry("growth by the largest and the smallest block of IPv6", growing(`{cidr: "fd00::/8", prefixLength: 64}, {cidr: "fc00::/126", prefixLength: 126}`, "")),

	Entry("no cool-down in so many words", coolingFor("0s")),
	Entry("30 days", coolingFor("720h")),
	Entry("30 days in seconds", coolingFor("2592000s")),

	Entry("an address of IPv4", keep("10.96.0.10")),
	Entry("an address of IPv6", keep("fd00:10:96::a")),
	Entry("a range of IPv4 over the border of a byte", keep("10.96.0.250-10.96.1.5")),
	Entry("a range of IPv6 that text would order otherwise", keep("fd00:10:96::a-fd00:10:96::10")),
	Entry("a range of IPv6 over the border of a group", keep("fd00:10:96::fff0-fd00:10:96::1:f")),
	Entry("a range of IPv6 without a short form", keep("fd00:1:2:3:4:5:6:7-fd00:1:2:3:4:5:6:8")),
	Entry("a range of one address of IPv6", keep("fd00:10:96::-fd00:10:96::")),
	Entry("1,024 addresses of IPv4", keep("10.96.0.0/22")),
	Entry("1,024 addresses of IPv6", keep("fd00:10:96::/118")),
	Entry("a CIDR of one address of IPv6", keep("fd00:10:96::a/128")),
	Entry("one address of each family for a Service", `{reservations: [{name: four, address: 10.96.0.10, for: shop/cart},
		{name: six, address: "fd00:10:96::a", for: shop/cart}]}`),
	Entry("a Service with long names", keepFor(strings.Repeat("n", 63)+"/"+strings.Repeat("s", 63))),
)
