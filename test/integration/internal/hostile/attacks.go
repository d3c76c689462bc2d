package hostile

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What an API server takes, and what a tenant can fill.
const (
	// ManyPorts is as many as fit into a request of 3 MiB of JSON.
	ManyPorts = 44_000
	// LargeName is as long as a request allows, with room for the rest.
	LargeName = 2_400_000
	// LargeAnnotations is what Kubernetes takes of annotations in all, with room for their names.
	LargeAnnotations = 256<<10 - 1024
)

// named is a Service of one port.
func named(name string, spec Fields) Service {
	spec["ports"] = []Fields{{"port": 80}}
	return Service{"apiVersion": "v1", "kind": "Service", "metadata": Fields{"name": name}, "spec": spec}
}

// Plain is a Service as most are.
func Plain(name string) Service { return named(name, Fields{}) }

// Alias is a Service that has no address, and may be given one later.
func Alias(name string) Service {
	return named(name, Fields{"type": "ExternalName", "externalName": "example.com"})
}

// Choosing is a Service that names its addresses, as many as there are.
func Choosing(name string, addresses ...string) Service {
	spec := Fields{"clusterIP": addresses[0], "clusterIPs": addresses}
	if len(addresses) > 1 {
		spec["ipFamilyPolicy"] = "RequireDualStack"
	}
	return named(name, spec)
}

// Invalid is a Service of two addresses that the API server refuses when it has allocated both: by
// then it has written their IPAddresses.
func Invalid(name string) Service {
	s := named(name, Fields{"ipFamilyPolicy": "RequireDualStack"})
	s["spec"].(Fields)["ports"] = []Fields{{"name": "same", "port": 80}, {"name": "same", "port": 81}}
	return s
}

// Misnamed is a Service that the API server refuses before: no IPAddress can have its name.
func Misnamed(name string) Service {
	return named(name+"%/", Fields{"ipFamilyPolicy": "RequireDualStack"})
}

// ManyFamilies is a Service that names families again and again.
func ManyFamilies(name string, n int) Service {
	families := make([]string, n)
	for i := range families {
		families[i] = "IPv4"
	}
	return named(name, Fields{"ipFamilyPolicy": "PreferDualStack", "ipFamilies": families})
}

// AllOf is a Service that names each address of a range, up to n: too many for any Service.
func AllOf(name string, r netip.Prefix, n int) Service {
	var addresses []string
	for a := r.Addr().Next(); r.Contains(a) && len(addresses) < n; a = a.Next() {
		addresses = append(addresses, a.String())
	}
	return named(name, Fields{"clusterIP": addresses[0], "clusterIPs": addresses})
}

// Long is a name of so many bytes that no Service may have.
func Long(n int) string { return strings.Repeat("n", n) }

// Escaping is a name that would clear the screen of an admin who prints it, and paint it red.
func Escaping(n int) string {
	const escape = "\x1b[2J\x1b[31m!"
	return strings.Repeat(escape, n/len(escape)+1)[:n]
}

// Large is a Service without an address, whose annotations are as large as Kubernetes takes them.
func Large(name, annotation, text string) Service {
	s := named(name, Fields{"clusterIP": "None"})
	s["metadata"].(Fields)["annotations"] = Fields{annotation: text}
	return s
}

// Addresses is a text of so many bytes that is a list of addresses; Names is one of names of
// ServiceCIDRs that do not exist.
func Addresses(n int) string {
	return list(n, func(i int) string { return fmt.Sprintf("203.0.%d.%d", i>>8&255, i&255) })
}

// Names is described at Addresses.
func Names(n int) string { return list(n, func(i int) string { return fmt.Sprintf("nowhere-%d", i) }) }

func list(n int, item func(int) string) string {
	var out strings.Builder
	for i := 0; out.Len() < n-32; i++ {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(item(i))
	}
	return out.String()
}

// Ported is a Service with as many ports as one likes.
func Ported(name string, n int, addresses ...string) Service {
	s := Choosing(name, addresses...)
	ports := make([]Fields, n)
	for i := range ports {
		ports[i] = Fields{"name": fmt.Sprintf("p%d", i+1), "port": i + 1, "protocol": "TCP"}
	}
	s["spec"].(Fields)["ports"] = ports
	return s
}

// PortedProtobuf is Ported for protobuf.
func PortedProtobuf(name string, n int, addresses ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: addresses[0], ClusterIPs: addresses}}
	if len(addresses) > 1 {
		s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	}
	for i := range n {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i+1), Port: int32(i + 1), Protocol: corev1.ProtocolTCP}) //nolint:gosec // below 2^16
	}
	return s
}

// Intrude tries to get addresses by a Service that is too large to be looked at: created so, or
// grown while it had no address, so that the API server has two of them to send. It cuts the
// Service back to one port in the end, which is nothing to look at. mediaType is that of the
// creation.
func (t *Tenant) Intrude(ctx context.Context, name, mediaType string, ports int, addresses ...string) (answers []Answer) {
	if mediaType == Protobuf {
		answers = append(answers, t.Send(ctx, http.MethodPost, "", "", Protobuf, EncodeProtobuf(PortedProtobuf(name, ports, addresses...))))
	} else {
		answers = append(answers, t.Create(ctx, Ported(name, ports, addresses...)))
	}
	return append(answers, t.Merge(ctx, name, Fields{"spec": Fields{"ports": []Fields{{"port": 80}}}}))
}

// IntrudeLater is Intrude by an update: the Service is an alias of a DNS name before, has many
// ports then too, and drops its managed fields, for they would make it too large to be stored.
func (t *Tenant) IntrudeLater(ctx context.Context, name string, ports int, addresses ...string) (answers []Answer) {
	alias := Ported(name, ports, addresses...)
	alias["spec"] = Fields{"type": "ExternalName", "externalName": "example.com", "ports": alias["spec"].(Fields)["ports"]}
	later := Ported(name, ports, addresses...)
	for _, s := range []Service{alias, later} {
		s["metadata"].(Fields)["managedFields"] = []Fields{{}}
	}
	return []Answer{t.Create(ctx, Alias(name)), t.Replace(ctx, name, alias), t.Replace(ctx, name, later), t.Merge(ctx, name, Fields{"spec": Fields{"ports": []Fields{{"port": 80}}}})}
}

// Within returns a Service's ClusterIPs and external IPs in ranges: nodes serve both.
func Within(s *corev1.Service, ranges ...netip.Prefix) (found []string) {
	for _, text := range slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs) {
		address, err := netip.ParseAddr(text)
		if err == nil && slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(address) }) {
			found = append(found, text)
		}
	}
	return found
}

// AskEveryWay tries to get an address of either family in every way in which a Service comes to
// one, written in every way in which an address can be.
func (t *Tenant) AskEveryWay(ctx context.Context, name, four, six string) (answers []Answer) {
	long := netip.MustParseAddr(six).StringExpanded()
	for i, addresses := range [][]string{
		{four}, {six}, {four, six}, {six, four}, {strings.ToUpper(six)}, {long}, {four, long}, {"0" + four}, {"::ffff:" + four},
	} {
		created, put, applied, alias := fmt.Sprintf("%s-%d", name, i), fmt.Sprintf("%s-put-%d", name, i), fmt.Sprintf("%s-applied-%d", name, i), fmt.Sprintf("%s-alias-%d", name, i)
		answers = append(answers,
			t.Create(ctx, Choosing(created, addresses...)),
			t.Replace(ctx, put, Choosing(put, addresses...)),
			t.Apply(ctx, applied, Choosing(applied, addresses...)),
			t.Create(ctx, Alias(alias)),
			t.Merge(ctx, alias, becoming(addresses...)))
	}
	first := t.Create(ctx, Plain(name))
	answers = append(answers, t.Create(ctx, named(name+"-external", Fields{"externalIPs": []string{four, six}})), t.Merge(ctx, name, Fields{"spec": Fields{"externalIPs": []string{six, four}}}))
	return append(answers, first, t.Merge(ctx, name, Fields{"spec": Fields{
		"clusterIPs": []any{first.ClusterIP(), six}, "ipFamilies": []string{"IPv4", "IPv6"}, "ipFamilyPolicy": "RequireDualStack",
	}}))
}

// becoming is what makes a Service that has no address one that names some.
func becoming(addresses ...string) Fields {
	return Fields{"spec": Fields{
		"type": "ClusterIP", "externalName": nil, "clusterIP": addresses[0], "clusterIPs": addresses, "ipFamilyPolicy": "PreferDualStack",
	}}
}
