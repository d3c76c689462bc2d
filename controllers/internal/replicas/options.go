package replicas

import (
	"net/netip"
	"strings"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	defaultDuration = 15 * time.Second
	defaultRenew    = 3 * time.Second
	defaultSettle   = 8 * time.Second
	// longest is what a Lease may say of its own duration: a typo must not keep a dead replica for a year.
	longest = time.Minute
)

// Options say who a replica is. Namespace, Identity and Client are needed, the rest has defaults.
type Options struct {
	// Namespace holds the Leases of all replicas.
	Namespace string
	// Identity is a name for people: that of the pod, or the host's. New adds what makes it unique.
	Identity string
	// Client reads, writes and watches Leases at the API server, without a cache between.
	Client client.WithWatch
	// Lend takes a free address out of this replica's draws, for another replica that has asked for it and hands it out, or claims it, at once; false if
	// it is not free. Nothing is lent by default. It must not block.
	Lend func(netip.Addr) bool
	// Clock is a real clock by default.
	Clock clock.Clock
	// Duration is how long the others count on a replica that they do not hear of: 15 s by default, at most a minute.
	Duration time.Duration
	// Renew is how often a replica makes itself heard: 3 s by default.
	Renew time.Duration
	// Settle is how long an address that changes its owner belongs to nobody: 8 s by default. It must be longer than an address that
	// was drawn may take to be seen by all replicas, or to be dropped: the time-out of the webhook, the API server's write, the way
	// of the news.
	Settle time.Duration
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.Lend == nil {
		o.Lend = func(netip.Addr) bool { return false }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	for _, d := range []struct {
		of      *time.Duration
		instead time.Duration
	}{{&o.Duration, defaultDuration}, {&o.Renew, defaultRenew}, {&o.Settle, defaultSettle}} {
		if *d.of <= 0 {
			*d.of = d.instead
		}
	}
	o.Duration = min(o.Duration, longest)
	return o
}

// suffix is how many random characters make an identity unique: a container that crashed and came back in its pod is another
// replica than before, of whose draws it knows nothing.
const suffix = 6

// maxIdentity leaves room for prefix and suffix in the name of an object.
const maxIdentity = 200

// uniqueID makes an identity fit for the name of an object, and unique among all processes that ever were.
func uniqueID(identity string) string {
	return sanitise(identity) + "-" + utilrand.String(suffix)
}

// sanitise keeps what a DNS subdomain may have, without dots.
func sanitise(identity string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, identity)
	clean = strings.Trim(clean[max(0, len(clean)-maxIdentity):], "-")
	if clean == "" {
		return "replica"
	}
	return clean
}
