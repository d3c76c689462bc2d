package upgrade

import (
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Shape is what kind of cluster is upgraded.
type Shape struct {
	// Services is how many there are, that of the API server itself included, which has one family in any cluster.
	Services int
	// Dual: all others have an address of each family.
	Dual bool
}

// secondary is the range of the second family: the largest that an API server with bitmaps accepts.
const secondary = "fd00:10:96::/108"

func (s Shape) ranges() string {
	if s.Dual {
		return cluster.Range.String() + "," + secondary
	}
	return cluster.Range.String()
}

// template are the addresses of the Service that the others are copies of.
func (s Shape) template() []string {
	if s.Dual {
		return []string{"10.96.0.10", "fd00:10:96::10"}
	}
	return []string{"10.96.0.10"}
}

// addresses is how many ClusterIPs there are, and how many IPAddresses there have to be.
func (s Shape) addresses() int {
	if s.Dual {
		return 2*s.Services - 1
	}
	return s.Services
}

// old is an API server that allocates from the bitmap, and serves IPAddresses to whoever wants to prepare.
func (s Shape) old() framework.Options {
	return framework.Options{Version: framework.V132, ServiceClusterIPRange: s.ranges()}
}

// newer is an API server that expects an IPAddress for each ClusterIP.
func (s Shape) newer() framework.Options {
	return framework.Options{Version: framework.V136, ServiceClusterIPRange: s.ranges()}
}

// String says it in the words of the tables.
func (s Shape) String() string {
	text := stats.Number(float64(s.Services)) + " Services"
	if s.Dual {
		text += " of two families"
	}
	return text
}
