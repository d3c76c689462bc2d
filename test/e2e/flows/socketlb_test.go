package flows_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// With CLUSTERIP_SOCKETLB=pods, host or all, agents of ours translate connections at connect(): the
// specs are the same, but that an endpoint sees the client's own address where rules give it the
// node's: an endpoint that meets itself, or a pod that is not told as local. Each reports how many
// of its connections were translated, and why others were not. What the agent says it translates
// has to be translated, every connection of it.

// atConnect is what the agent says of a front.
var atConnect = regexp.MustCompile(`(?m)^ *(\S+): (?:translated, .* (\d+) connections so far|left to rules: (.*))`)

// untranslating is what the agent says where it translates nothing, with the reason.
var untranslating = regexp.MustCompile(`At connect\(\) nothing is translated, although scope \w+ is configured: (.*)\. Otherwise`)

// front is a ClusterIP and port, as the agent tells of it.
type front struct {
	at    netip.AddrPort
	taken int    // connections that were translated
	left  string // why none is, empty if they are
}

// mayBeLeft are the reasons for which rules serve connections over TCP to ClusterIPs.
var mayBeLeft = []string{
	"session affinity goes by the client's address", "masqueradeAll gives clients the node's address",
	"the scheduler sh is none of random, rr and wrr", "the scheduler mh is none of random, rr and wrr",
	"the scheduler lc is none of random, rr and wrr", "it has no endpoint that its clients here may use",
	"connections to a former address are counted", "an interface of the node has the address",
}

var (
	errSilent   = errors.New("no agent tells of")
	errStarting = errors.New("the agent has not attached its programs yet, and does not tell of")
)

// translated tells what of the connections to ClusterIPs was translated, and ends the scenario
// where rules serve what should be.
func (t *T) translated() string {
	var all []string
	for _, s := range t.services {
		fronts, err := t.written(s)
		if err != nil { // the Service may be gone, or another scenario may have ended the agent
			all = append(all, err.Error())
			continue
		}
		for _, f := range fronts {
			if f.left != "" && !slices.Contains(mayBeLeft, f.left) {
				t.fail("the agent leaves connections to %s, %s, to rules: %s", s.Name, f.at, f.left)
			}
			text := fmt.Sprintf("%d of %d to %s, %s", f.taken, t.made(f), s.Name, f.at)
			if f.left != "" {
				all = append(all, text+", left to rules: "+f.left)
				continue
			}
			all = append(all, text)
			t.allTranslated(s, f)
		}
	}
	return strings.Join(all, "; ")
}

// written asks the agent for the fronts of a Service over TCP when its maps have what they take,
// which comes after the rules, by which clients have met the Service already.
func (t *T) written(s service) (all []front, err error) {
	t.eventually("the maps do not get a front", func() error {
		if all, err = t.atConnect(s); errors.Is(err, errStarting) {
			return err // another scenario has just started the agent again
		}
		for _, f := range all {
			if f.left == "the maps do not have it yet" {
				return fmt.Errorf("%s of %s: %s", f.at, s.Name, f.left)
			}
		}
		return nil
	})
	return all, err
}

// atConnect asks the agent for the fronts of a Service over TCP.
func (t *T) atConnect(s service) (all []front, err error) {
	told, err := t.proxy.Get(t.ctx, "/debug/dump?"+url.Values{"of": {s.Namespace + "/" + s.Name}}.Encode())
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", errSilent, s.Name, err)
	}
	switch untranslated := untranslating.FindStringSubmatch(told); {
	case untranslated == nil:
	case untranslated[1] == "the agent ends": // it answers until it has ended
		return nil, fmt.Errorf("%w %s", errSilent, s.Name)
	case untranslated[1] == "the programs are not attached yet":
		return nil, fmt.Errorf("%w %s", errStarting, s.Name)
	default:
		t.fail("the agent translates nothing:\n%s", told)
	}
	for _, line := range atConnect.FindAllStringSubmatch(told, -1) {
		f := front{left: line[3]}
		f.at, err = netip.ParseAddrPort(line[1])
		t.must(err)
		f.taken, _ = strconv.Atoi(line[2])
		if f.left == "UDP is not TCP" || f.left == "SCTP is not TCP" {
			continue
		}
		all = append(all, f)
	}
	return all, nil
}

// allTranslated makes a connection from each client in the scope, all of which the agent has to
// count: those before may have come between the rules and the maps, or to another agent.
func (t *T) allTranslated(s service, f front) {
	t.eventually("rules serve connections that the agent says it translates", func() error {
		before, err := t.takenOf(s, f.at)
		if errors.Is(err, errSilent) {
			return nil // another scenario has just ended the agent
		}
		if err != nil {
			return err
		}
		for _, n := range t.inScope() {
			n.Dial(network.Probe{To: f.at, Timeout: network.DropTimeout})
		}
		after, err := t.takenOf(s, f.at)
		if err == nil && after != before+len(t.inScope()) {
			err = fmt.Errorf("of %d connections to %s, %d were counted", len(t.inScope()), f.at, after-before)
		}
		return err
	})
}

// takenOf is how many connections to a front were translated.
func (t *T) takenOf(s service, at netip.AddrPort) (int, error) {
	fronts, err := t.atConnect(s)
	for _, f := range fronts {
		if f.at == at {
			return f.taken, nil
		}
	}
	return 0, cmp.Or(err, fmt.Errorf("the agent does not tell of %s", at))
}

// translates reports whether the proxy was asked to translate connections at connect().
func (t *T) translates() bool {
	return t.Options.SocketLB != "" && t.kind.ours() && t.kind != oursIPVS
}

// mayBeTranslated reports whether connect() may lead a flow to an endpoint, which then sees the
// client's own address.
func (t *T) mayBeTranslated(f Flow) bool {
	tcp := f.Protocol == 0 || f.Protocol == model.TCP
	return t.translates() && tcp && f.from.InCgroup() && slices.ContainsFunc(t.services, func(s service) bool {
		return slices.Contains(s.Spec.ClusterIPs, f.To.Addr().String())
	})
}

// inScope are the clients whose connections are translated.
func (t *T) inScope() []*network.Namespace {
	return map[string][]*network.Namespace{"pods": {t.Pod1, t.Pod2}, "host": {t.Node}, "all": {t.Pod1, t.Pod2, t.Node}}[t.Options.SocketLB]
}

// made are the connections to a front of clients that are in the scope.
func (t *T) made(f front) (all int) {
	for _, n := range t.inScope() {
		all += n.Reached(f.at)
	}
	return all
}
