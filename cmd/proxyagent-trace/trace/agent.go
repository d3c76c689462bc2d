//go:build linux

package trace

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// askTimeout bounds the question to the agent. No agent has to run.
const askTimeout = 2 * time.Second

// atConnect says where connect() leads before there is a packet, in the words of the agent at an
// address; empty if it leads nowhere, or no agent answers.
func (p packet) atConnect(ctx context.Context, agent string) string {
	if p.protocol != model.TCP || agent == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	where := url.URL{Scheme: "http", Host: agent, Path: "/debug/dump", RawQuery: url.Values{"of": {p.dst.Addr().String()}}.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil || response.StatusCode != http.StatusOK {
		return ""
	}
	return translated(string(text), p.dst)
}

// translated finds in what dump says where connect() leads.
func translated(dump string, dst netip.AddrPort) string {
	scope := "" // where it is attached
	for line := range strings.Lines(dump) {
		line = strings.TrimSpace(line)
		if rest, is := strings.CutPrefix(line, "At connect()"); is {
			rest, active := strings.CutPrefix(rest, ", scope ")
			if scope = ""; active {
				scope, _, _ = strings.Cut(rest, ", ")
			}
		}
		if what, is := strings.CutPrefix(line, dst.String()+": translated, "); is && scope != "" {
			return fmt.Sprintf("connect() leads sockets in scope %s elsewhere before there is a packet: %s. Rules see what follows only of other clients", scope, what)
		}
	}
	return ""
}
