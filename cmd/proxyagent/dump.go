//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

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
