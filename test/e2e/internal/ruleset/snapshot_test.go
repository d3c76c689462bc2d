package ruleset

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Once in thousands, an agent removes a rule and its set between an iptables-save's two reads.
func TestASetGoesWhileRulesAreRead(t *testing.T) {
	folder := t.TempDir()
	script := "#!/bin/sh\n[ -e " + folder + "/again ] && exec iptables-legacy-save\n: >" + folder + "/again\n" +
		"echo \"iptables-nft-save v1.8.9 (nf_tables): Set with index 0 in kernel doesn't exist.\" >&2\nexit 2\n"
	if err := os.WriteFile(filepath.Join(folder, "iptables-nft-save"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	topology := network.Lend(t)
	if _, err := Take(t.Context(), topology.Node); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "again")); err != nil {
		t.Error("nothing failed: ", err)
	}
}
