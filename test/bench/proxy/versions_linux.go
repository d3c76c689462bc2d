package proxy

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
)

// versions names the programs that take part.
func versions(ctx context.Context, plane *cluster.Cluster) (string, error) {
	text, err := plane.Versions(ctx)
	if err != nil {
		return "", err
	}
	text += ", kube-proxy of the same version"
	for _, tool := range []string{"iptables", "nft"} {
		said, err := exec.CommandContext(ctx, tool, "--version").Output()
		if err != nil {
			return "", fmt.Errorf("asking %s for its version: %w", tool, err)
		}
		if words := strings.Fields(string(said)); len(words) > 1 {
			text += ", " + tool + " " + words[1]
		}
	}
	return text, nil
}
