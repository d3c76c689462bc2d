package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
)

func TestFlagsOver(t *testing.T) {
	file := Default()
	file.NodeName, file.ServiceProxyName, file.Log.Level = "file", "file", 2
	file.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectBridgeInterface, BridgeInterface: "cni0"}
	type conf = v1alpha1.ProxyAgentConfiguration
	for name, tc := range map[string]struct {
		flags Flags
		want  func(*conf)
	}{
		"none": {Flags{}, func(*conf) {}},
		"all": {Flags{
			Kubeconfig: new("k"), NodeName: new("n"), Allocations: new("ignore"), IPTablesMode: new("nft"), ServiceProxyName: new("p"),
			MetricsBindAddress: new(":1"), HealthBindAddress: new(":2"), SysctlRoot: new("/s"),
			ClusterCIDRs: new([]string{"10.0.0.0/16", "fd00::/56"}), MinSyncPeriod: new(3 * time.Second), Verbosity: new(4),
		}, func(c *conf) {
			c.Client.Kubeconfig, c.NodeName, c.Allocations, c.IPTables.Mode, c.ServiceProxyName = "k", "n", "ignore", "nft", "p"
			c.Metrics.BindAddress, c.Health.BindAddress, c.SysctlRoot = ":1", ":2", "/s"
			c.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectClusterCIDR, ClusterCIDRs: []string{"10.0.0.0/16", "fd00::/56"}}
			c.IPTables.MinSyncPeriod.Duration, c.Log.Level = 3*time.Second, 4
		}},
		"given, and empty": {Flags{
			NodeName: new(""), ServiceProxyName: new(""), Verbosity: new(0), ClusterCIDRs: new([]string{""}),
		}, func(c *conf) {
			c.NodeName, c.ServiceProxyName, c.Log.Level = "", "", 0
			c.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectClusterCIDR}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := file
			tc.want(&want)
			got := tc.flags.Over(file)
			got.DetectLocal.ClusterCIDRs = append([]string(nil), got.DetectLocal.ClusterCIDRs...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A flag that Over forgets would be read and dropped.
func TestEachFlagDoesSomething(t *testing.T) {
	for f := range reflect.TypeFor[Flags]().Fields() {
		var flags Flags
		value := reflect.New(f.Type.Elem())
		switch to := value.Interface().(type) {
		case *string:
			*to = "given"
		case *[]string:
			*to = []string{"given"}
		case *time.Duration:
			*to = time.Hour
		case *int:
			*to = 9
		}
		reflect.ValueOf(&flags).Elem().FieldByIndex(f.Index).Set(value)
		if cmp.Equal(Default(), flags.Over(Default())) {
			t.Errorf("%s does nothing", f.Name)
		}
	}
}

func TestNodeName(t *testing.T) {
	for _, tc := range []struct{ configured, environment, host, want string }{
		{"a", "b", "c", "a"},
		{"", "b", "c", "b"},
		{"", "", " Host.Example \n", "host.example"},
		{" ", "", "c", "c"},
	} {
		if got, err := NodeName(tc.configured, tc.environment, tc.host); got != tc.want || err != nil {
			t.Errorf("%+v: %q, %v", tc, got, err)
		}
	}
	if _, err := NodeName("", " ", ""); err == nil {
		t.Error("a node without a name")
	}
}
