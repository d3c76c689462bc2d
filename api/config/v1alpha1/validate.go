package v1alpha1

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// mostOwners is the greatest value of history.owners.
const mostOwners = 20

// mistakes gathers what is wrong with values, each with the path of its field.
type mistakes field.ErrorList

// unless adds a mistake where a value is not right.
func (m *mistakes) unless(right bool, path string, value any, why string) {
	if !right {
		*m = append(*m, field.Invalid(field.NewPath(path), value, why))
	}
}

func (m *mistakes) add(err *field.Error) { *m = append(*m, err) }

func (m *mistakes) oneOf(path, value string, valid ...string) {
	if !slices.Contains(valid, value) {
		m.add(field.NotSupported(field.NewPath(path), value, valid))
	}
}

// inRange wants a number from 0 to most.
func (m *mistakes) inRange(path string, n, most int) {
	m.unless(n >= 0 && n <= most, path, n, "must be from 0 to "+strconv.Itoa(most))
}

// named adds what the validation of a name found.
func (m *mistakes) named(path, name, what string, problems []string) {
	for _, problem := range problems {
		m.unless(false, path, name, what+problem)
	}
}

// label takes names of namespaces and Services; an empty one is a default.
func (m *mistakes) label(path, name string) {
	if name != "" {
		m.named(path, name, "", validation.IsDNS1123Label(name))
	}
}

// cidr reads a CIDR. One that is none or has bits beyond its prefix is a mistake, and false.
func (m *mistakes) cidr(path, text, example string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	m.unless(err == nil, path, text, "must be a CIDR such as "+example)
	m.unless(err != nil || p == p.Masked(), path, text, "has bits beyond its prefix; "+p.Masked().String()+" is meant")
	return p, err == nil && p == p.Masked()
}

func (m *mistakes) log(l Log) {
	m.oneOf("log.format", l.Format, "json", "text")
	m.inRange("log.level", l.Level, 10)
}

// address wants host and port, or "0" for none, and reports whether there is a server.
func (m *mistakes) address(path, address string) bool {
	_, _, err := net.SplitHostPort(address)
	m.unless(err == nil || address == "0", path, address, `must be HOST:PORT, :PORT, or "0" for none`)
	return err == nil
}

// port wants a number that clients can be told: not 0.
func (m *mistakes) port(path, address string) {
	_, port, _ := net.SplitHostPort(address)
	n, err := strconv.ParseUint(port, 10, 16)
	m.unless(err == nil && n > 0, path, address, "must have a port from 1 to 65535")
}

// Validate returns every mistake in the values at once, each with the path of its field.
func (c *ManagerConfiguration) Validate() error {
	var m mistakes
	m.serviceRange("serviceClusterIPRange", c.ServiceClusterIPRange)
	ports, err := utilnet.ParsePortRange(c.ServiceNodePortRange)
	m.unless(err == nil && ports.Base > 0, "serviceNodePortRange", c.ServiceNodePortRange, "must be FIRST-LAST, such as "+api.DefaultNodePortRange+", with ports from 1 to 65535")
	for i, n := range c.ReservedNetworks {
		path := "reservedNetworks[" + strconv.Itoa(i) + "]"
		if n.Name == "" {
			m.add(field.Required(field.NewPath(path+".name"), "it says in conditions whose network it is"))
		}
		_, err := netip.ParsePrefix(n.CIDR)
		m.unless(err == nil, path+".cidr", n.CIDR, "must be a CIDR such as 192.168.0.0/16")
	}
	m.unless(!c.BandLabels.Enabled || c.BandLabels.QPS > 0, "bandLabels.qps", c.BandLabels.QPS,
		"must be greater than 0; to write no labels set enabled: false")
	m.unless(c.History.Owners >= 1 && c.History.Owners <= mostOwners, "history.owners", c.History.Owners,
		"must be from 1 to "+strconv.Itoa(mostOwners)+"; to keep no history set enabled: false")
	m.inRange("nearlyFull.freePercent", c.NearlyFull.FreePercent, 100)
	m.unless(c.NearlyFull.Within.Duration >= 0, "nearlyFull.within", c.NearlyFull.Within.Duration.String(), "must not be negative")
	m.label("namespace", c.Namespace)
	m.webhook(&c.Webhook)
	m.address("metrics.bindAddress", c.Metrics.BindAddress)
	m.address("health.bindAddress", c.Health.BindAddress)
	m.unless(c.Client.QPS > 0, "client.qps", c.Client.QPS, "must be greater than 0")
	m.unless(float32(c.Client.Burst) >= c.Client.QPS, "client.burst", c.Client.Burst, "must be at least client.qps")
	m.log(c.Log)
	return field.ErrorList(m).ToAggregate()
}

// serviceRange follows kube-apiserver: one CIDR, or two of different families, the first of which
// is the cluster's default family.
func (m *mistakes) serviceRange(path string, cidrs []string) {
	var lengths []int // of the addresses, which tell the families apart
	for i, text := range cidrs {
		at := path + "[" + strconv.Itoa(i) + "]"
		p, _ := m.cidr(at, text, "10.96.0.0/16")
		m.unless(!p.Addr().Is6() || p.Bits() >= 64, at, text, "an IPv6 range is /64 or smaller")
		if p.IsValid() {
			lengths = append(lengths, p.Addr().BitLen())
		}
	}
	if len(cidrs) > 2 {
		m.add(field.TooMany(field.NewPath(path), len(cidrs), 2))
	} else if len(lengths) == 2 {
		m.unless(lengths[0] != lengths[1], path, strings.Join(cidrs, ","), "two ranges must be of different families")
	}
}

func (m *mistakes) webhook(w *Webhook) {
	if m.address("webhook.bindAddress", w.BindAddress) {
		m.port("webhook.bindAddress", w.BindAddress)
	}
	for i, name := range w.DNSNames {
		m.named("webhook.dnsNames["+strconv.Itoa(i)+"]", name, "", validation.IsDNS1123Subdomain(name))
	}
	m.label("webhook.service", w.Service)
	if w.Service == "" {
		m.add(field.Required(field.NewPath("webhook.service"), "the certificate is made for its name"))
	}
	m.named("webhook.configuration", w.Configuration, "", validation.IsDNS1123Subdomain(w.Configuration))
	m.oneOf("webhook.networkOverlap", w.NetworkOverlap, NetworkOverlapWarn, NetworkOverlapDeny, NetworkOverlapIgnore)
}
