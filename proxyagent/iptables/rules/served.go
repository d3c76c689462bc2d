package rules

import (
	"bytes"
	"net/netip"
	"regexp"
	"strconv"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// servedRule is a rule that leads a front to endpoints: of a virtual IP or, without address, of a
// node port. Ranges of ports, and prefixes, lead to chains with such rules.
var servedRule = regexp.MustCompile(`-A ` + Prefix + `\S+ (?:-d (\S+)/(?:32|128) )?-p (udp|sctp) .*--dport (\d+) `)

// Served lists the fronts of UDP and SCTP in what iptables-save prints of the table nat, as ports.
func Served(saved []byte) (all []model.ServicePort) {
	for line := range bytes.Lines(saved) {
		if !bytes.Contains(line, []byte(" --dport ")) || bytes.Contains(line, []byte(" -p tcp ")) {
			continue // nearly all, without the cost of an expression
		}
		match := servedRule.FindSubmatch(line)
		if match == nil {
			continue
		}
		number, err := strconv.ParseUint(string(match[3]), 10, 16)
		if err != nil {
			continue // no port
		}
		protocol := model.UDP
		if string(match[2]) == "sctp" {
			protocol = model.SCTP
		}
		vip, _ := netip.ParseAddr(string(match[1])) // a node port has none
		all = append(all, model.PortAt(protocol, netip.AddrPortFrom(vip, uint16(number))))
	}
	return all
}
