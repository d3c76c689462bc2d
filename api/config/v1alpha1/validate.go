package v1alpha1

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns every mistake in the values at once, each with the path of its field.
func (c *ManagerConfiguration) Validate() error {
	var errs field.ErrorList
	errs = append(errs, validateRange(field.NewPath("serviceClusterIPRange"), c.ServiceClusterIPRange)...)
	for i, n := range c.ReservedNetworks {
		errs = append(errs, validateNetwork(field.NewPath("reservedNetworks").Index(i), n)...)
	}
	if c.BandLabels.Enabled && c.BandLabels.QPS <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("bandLabels", "qps"), c.BandLabels.QPS, "must be greater than 0; to write no labels set enabled: false"))
	}
	if p := c.NearlyFull.FreePercent; p < 0 || p > 100 {
		errs = append(errs, field.Invalid(field.NewPath("nearlyFull", "freePercent"), p, "must be from 0 to 100"))
	}
	if w := c.NearlyFull.Within.Duration; w < 0 {
		errs = append(errs, field.Invalid(field.NewPath("nearlyFull", "within"), w.String(), "must not be negative"))
	}
	errs = append(errs, validateLabel(field.NewPath("namespace"), c.Namespace)...)
	errs = append(errs, c.Webhook.validate(field.NewPath("webhook"))...)
	errs = append(errs, validateAddress(field.NewPath("metrics", "bindAddress"), c.Metrics.BindAddress)...)
	errs = append(errs, validateAddress(field.NewPath("health", "bindAddress"), c.Health.BindAddress)...)
	if c.Client.QPS <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("client", "qps"), c.Client.QPS, "must be greater than 0"))
	}
	if float32(c.Client.Burst) < c.Client.QPS {
		errs = append(errs, field.Invalid(field.NewPath("client", "burst"), c.Client.Burst, "must be at least client.qps"))
	}
	if f := c.Log.Format; f != "json" && f != "text" {
		errs = append(errs, field.NotSupported(field.NewPath("log", "format"), f, []string{"json", "text"}))
	}
	if l := c.Log.Level; l < 0 || l > 10 {
		errs = append(errs, field.Invalid(field.NewPath("log", "level"), l, "must be from 0 to 10"))
	}
	return errs.ToAggregate()
}

// validateRange follows kube-apiserver: one CIDR, or two of different families, the first of which is the
// cluster's default family.
func validateRange(path *field.Path, cidrs []string) field.ErrorList {
	var errs field.ErrorList
	var families []bool
	for i, text := range cidrs {
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), text, "must be a CIDR such as 10.96.0.0/16"))
			continue
		case p != p.Masked():
			errs = append(errs, field.Invalid(path.Index(i), text, "has bits beyond its prefix; "+p.Masked().String()+" is meant"))
		case p.Addr().Is6() && p.Bits() < 64:
			errs = append(errs, field.Invalid(path.Index(i), text, "an IPv6 range is /64 or smaller"))
		}
		families = append(families, p.Addr().Is6())
	}
	switch {
	case len(cidrs) > 2:
		errs = append(errs, field.TooMany(path, len(cidrs), 2))
	case len(families) == 2 && families[0] == families[1]:
		errs = append(errs, field.Invalid(path, cidrs, "two ranges must be of different families"))
	}
	return errs
}

func validateNetwork(path *field.Path, n ReservedNetwork) field.ErrorList {
	var errs field.ErrorList
	if n.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "it says in conditions whose network it is"))
	}
	if _, err := netip.ParsePrefix(n.CIDR); err != nil {
		errs = append(errs, field.Invalid(path.Child("cidr"), n.CIDR, "must be a CIDR such as 192.168.0.0/16"))
	}
	return errs
}

func (w *Webhook) validate(path *field.Path) field.ErrorList {
	errs := validateAddress(path.Child("bindAddress"), w.BindAddress)
	if len(errs) == 0 && w.BindAddress != "0" {
		errs = append(errs, validatePort(path.Child("bindAddress"), w.BindAddress)...)
	}
	for i, name := range w.DNSNames {
		for _, problem := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(path.Child("dnsNames").Index(i), name, problem))
		}
	}
	errs = append(errs, validateLabel(path.Child("service"), w.Service)...)
	if w.Service == "" {
		errs = append(errs, field.Required(path.Child("service"), "the certificate is made for its name"))
	}
	for _, problem := range validation.IsDNS1123Subdomain(w.Configuration) {
		errs = append(errs, field.Invalid(path.Child("configuration"), w.Configuration, problem))
	}
	if known := []string{NetworkOverlapWarn, NetworkOverlapDeny, NetworkOverlapIgnore}; !slices.Contains(known, w.NetworkOverlap) {
		errs = append(errs, field.NotSupported(path.Child("networkOverlap"), w.NetworkOverlap, known))
	}
	return errs
}

// validateLabel takes names of namespaces and Services; an empty one is a default.
func validateLabel(path *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		return nil
	}
	for _, problem := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
}

// validatePort wants a number that others can be told.
func validatePort(path *field.Path, address string) field.ErrorList {
	_, port, _ := net.SplitHostPort(address)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return field.ErrorList{field.Invalid(path, address, "must have a port from 1 to 65535")}
	}
	return nil
}

func validateAddress(path *field.Path, address string) field.ErrorList {
	if address == "0" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return field.ErrorList{field.Invalid(path, address, `must be HOST:PORT, :PORT, or "0" for none`)}
	}
	return nil
}
