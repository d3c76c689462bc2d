package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// FormerConnections counts the connections to every former address that all agents serve. It fails
// when an agent cannot be asked, because that agent might have some.
func FormerConnections(ctx context.Context, s *cli.Cluster) (map[netip.Addr]int, error) {
	var answers []map[netip.Addr]int
	sets, err := AgentSets(ctx, s, metav1.NamespaceSystem)
	if err != nil {
		return nil, err
	}
	for i := range sets {
		pods, err := agentPods(ctx, s, &sets[i])
		if err != nil {
			return nil, err
		}
		failed := error(nil)
		err = ask(ctx, s, &sets[i], pods, "former", func(n int, answer []byte, err error) {
			counts, err := readFormer(answer, err)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("agent %s does not say which former addresses it serves: %w", pods[n].Pod, err))
			}
			answers = append(answers, counts)
		})
		if err = errors.Join(err, failed); err != nil {
			return nil, err
		}
	}
	if len(answers) == 0 {
		return nil, errors.New("there are no agents on the nodes")
	}
	return sum(answers), nil
}

// readFormer reads an agent's answer. A 503 is an answer too: it says why there are no counts.
func readFormer(answer []byte, err error) (map[netip.Addr]int, error) {
	var told struct {
		Addresses map[netip.Addr]int
		Reason    string
	}
	switch broken := json.Unmarshal(answer, &told); {
	case broken == nil && told.Reason != "":
		return nil, fmt.Errorf("%s; try again in a moment", told.Reason)
	case err != nil:
		return nil, err
	case broken != nil:
		return nil, fmt.Errorf("reading its answer: %w", broken)
	}
	return told.Addresses, nil
}

// sum adds up the counts of the addresses that all know.
func sum(answers []map[netip.Addr]int) map[netip.Addr]int {
	out := answers[0]
	for _, more := range answers[1:] {
		for a := range out {
			if n, known := more[a]; known {
				out[a] += n
			} else {
				delete(out, a)
			}
		}
	}
	return out
}
