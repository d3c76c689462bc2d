package framework

// Version is a Kubernetes version that this package can run, with the flags that bring its API server
// into the shape that the operator supports. The zero Version stands for [V136].
type Version struct {
	// Name is the release, for the names of files and specs.
	Name string
	// NetworkingVersion is the version of networking.k8s.io that serves IPAddress and ServiceCIDR.
	NetworkingVersion string

	island string
	args   []string
}

var (
	// V136 allocates ClusterIPs as IPAddress objects from ServiceCIDRs.
	V136 = Version{Name: "1.36.3", NetworkingVersion: "v1", island: island136}

	// V132 allocates from the bitmap in etcd and serves IPAddress and ServiceCIDR as plain storage.
	V132 = Version{
		Name:              "1.32.2",
		NetworkingVersion: "v1beta1",
		island:            island132,
		args: []string{
			"--runtime-config=networking.k8s.io/v1beta1=true",
			"--feature-gates=MultiCIDRServiceAllocator=false",
		},
	}
)

func (v Version) orDefault() Version {
	if v.island == "" {
		return V136
	}
	return v
}
