//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/healthz"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/metrics"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const dumpPath = "/debug/dump"

// debugHandler serves metrics and debugging.
func debugHandler(c v1alpha1.ProxyAgentConfiguration, b choice, s socket, m *metrics.Metrics, a *proxyagent.Agent, h *healthz.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", m.Handler())
	mux.Handle("/healthz", h.Handler())
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, b.mode()) })
	mux.HandleFunc("/configz", func(w http.ResponseWriter, _ *http.Request) {
		text, err := yaml.Marshal(c)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(text)
	})
	var one sync.Mutex
	mux.HandleFunc(dumpPath, func(w http.ResponseWriter, r *http.Request) {
		if !fromHere(r) {
			http.Error(w, "only this node may ask", http.StatusForbidden)
			return
		}
		one.Lock()
		defer one.Unlock()
		text, err := dump(a, b, s, r.URL.Query().Get("of"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprint(w, text)
	})
	if c.Metrics.EnableProfiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// fromHere reports whether this node asks: a remote Prometheus may read metrics, but no endpoints.
func fromHere(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// dump explains a Service by its name, or by one of its virtual IPs, or gives an overview.
func dump(a *proxyagent.Agent, b choice, s socket, of string) (string, error) {
	if of == "" {
		return fmt.Sprintf("Served with %s, because %s.\n%s%s", b.backend, b.why, s.overview(), a.Overview()), nil
	}
	if namespace, name, ok := strings.Cut(of, "/"); ok {
		return a.Dump(model.ServiceName{Namespace: namespace, Name: name}), nil
	}
	addr, err := netip.ParseAddr(of)
	if err != nil {
		return "", fmt.Errorf("%q is neither NAMESPACE/NAME nor an address", of)
	}
	return a.DumpAddress(addr)
}

const dumpHelp = `Ask the agent that runs on this node what it serves, in words: for a Service or a virtual IP which chains there are, which
endpoints traffic goes to, and why one is left out. Without an argument: an overview.

  proxyagent dump default/web
  proxyagent dump 10.96.0.10`

func newDump() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use: "dump [NAMESPACE/NAME | ADDRESS]", Short: "Explain what is programmed.", Long: dumpHelp, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := ask(cmd.Context(), address, strings.Join(args, ""))
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:10249", "metrics address of the agent")
	return cmd
}

func ask(ctx context.Context, address, of string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	where := url.URL{Scheme: "http", Host: address, Path: dumpPath, RawQuery: url.Values{"of": {of}}.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("no agent answers at %s (see --address): %w", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", strings.TrimSpace(string(text)))
	}
	return string(text), err
}
