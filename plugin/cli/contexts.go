package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// within is the session without a word, and with requests that take no longer than said, unless
// --request-timeout says something else.
func (a *Session) within(longest time.Duration) *Session {
	quiet, flags := *a, *a.kube
	if t := flags.overrides.Timeout; t == "" || t == "0" { // the flag's default, none
		flags.overrides.Timeout = longest.String() // discovery knows no context
	}
	quiet.kube, quiet.Streams = &flags, Streams{Out: io.Discard, ErrOut: io.Discard}
	return &quiet
}

// In is the session of another context of the kubeconfig, without a word, whose requests take no
// longer than said.
func (a *Session) In(context string, longest time.Duration) *Session {
	other := a.within(longest)
	other.kube.overrides.CurrentContext = context
	return other
}

// Contexts are the contexts that a flag names, each once. It is an error if the kubeconfig has not
// all of them, or if another flag says which cluster is meant.
func (a *Session) Contexts(cmd *cobra.Command, flag string, named []string) ([]string, error) {
	for _, other := range []string{"context", "cluster", "server"} {
		if cmd.Flags().Changed(other) {
			return nil, fmt.Errorf("--%s and --%s both say which cluster is meant; leave out one of them", flag, other)
		}
	}
	has, err := a.contexts()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range named {
		if !slices.Contains(has, name) {
			return nil, fmt.Errorf("--%s: the kubeconfig has no context %.300q; `kubectl config get-contexts` lists those that it has", flag, name)
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

func (a *Session) contexts() ([]string, error) {
	raw, err := a.kube.config().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return slices.Sorted(maps.Keys(raw.Contexts)), nil
}

// CompleteContexts completes the last of several names of contexts.
func (a *Session) CompleteContexts(_ *cobra.Command, _ []string, word string) (words []string, _ cobra.ShellCompDirective) {
	before := word[:strings.LastIndex(word, ",")+1]
	has, _ := a.contexts() // an unreadable kubeconfig has none
	for _, name := range has {
		if strings.HasPrefix(before+name, word) {
			words = append(words, before+name)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
