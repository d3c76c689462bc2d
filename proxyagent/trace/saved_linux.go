package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// The variants of iptables, and the word for the one that is in use.
const (
	modeAuto   = "auto"
	modeNFT    = "nft"
	modeLegacy = "legacy"
)

// rulesOf are the rules of one variant.
type rulesOf struct {
	mode string
	Ruleset
	// ours is true when there are chains of ours.
	ours bool
}

// read returns the rules of the mode that is asked for, and what is to be said about the others.
func read(ctx context.Context, mode string, f model.Family) (rulesOf, string, error) {
	if mode == modeNFT || mode == modeLegacy {
		r, err := save(ctx, mode, f)
		return r, "", err
	}
	if mode != modeAuto && mode != "" {
		return rulesOf{}, "", fmt.Errorf("there is no variant %q of iptables: it is auto, nft or legacy", mode)
	}
	var found []rulesOf
	var missing error
	for _, m := range []string{modeNFT, modeLegacy} {
		if m == modeLegacy && !legacyInUse(f) {
			continue
		}
		r, err := save(ctx, m, f)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			missing = errors.Join(missing, err)
		case err != nil:
			return rulesOf{}, "", err
		default:
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return rulesOf{}, "", missing
	}
	r, note := choose(found)
	return r, note, nil
}

// choose takes the variant with our chains, otherwise the one with more rules.
func choose(found []rulesOf) (best rulesOf, note string) {
	best = found[0]
	for _, r := range found[1:] {
		if r.ours && !best.ours || r.ours == best.ours && r.Rules() > best.Rules() {
			best = r
		}
	}
	for _, r := range found {
		if r.mode != best.mode && r.Rules() > 0 {
			note = fmt.Sprintf("The kernel also asks those of iptables-%s, %d, which are not walked here.", r.mode, r.Rules())
		}
	}
	return best, note
}

// legacyInUse reports whether the kernel has legacy tables. To ask for them otherwise would make them.
func legacyInUse(f model.Family) bool {
	path := "/proc/net/ip_tables_names"
	if f == model.IPv6 {
		path = "/proc/net/ip6_tables_names"
	}
	names, err := os.ReadFile(path)
	return err == nil && len(bytes.TrimSpace(names)) > 0
}

func save(ctx context.Context, mode string, f model.Family) (rulesOf, error) {
	program := "iptables-" + mode + "-save"
	if f == model.IPv6 {
		program = "ip6tables-" + mode + "-save"
	}
	cmd := exec.CommandContext(ctx, program)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return rulesOf{}, fmt.Errorf("running %s: %w: %s", program, err, strings.TrimSpace(complaints.String()))
	}
	r, err := Parse(string(out))
	if err != nil {
		return rulesOf{}, fmt.Errorf("reading the output of %s: %w", program, err)
	}
	return rulesOf{mode: mode, Ruleset: r, ours: bytes.Contains(out, []byte("\n:CIPA-"))}, nil
}
