package migration

import (
	"errors"
	"strings"
	"testing"
)

// Where API servers encrypt what they store, they could not read what is written past them.
func TestPlain(t *testing.T) {
	away := errors.New("away")
	inDefault := aService("kubernetes", "10.0.0.1")
	inDefault.Name.Namespace = "default"
	for name, tc := range map[string]struct {
		change func(*memory)
		want   string // a piece of the error, "" for none
	}{
		"plain":                 {change: func(*memory) {}},
		"nothing is there":      {change: func(m *memory) { m.remove("services/specs/default/kubernetes") }},
		"encrypted Services":    {change: func(m *memory) { m.put(Write{Key: "services/specs/default/kubernetes", Raw: []byte("k8s:enc:x")}) }, want: "services/specs/default/kubernetes: the value is encrypted"},
		"encrypted IPAddresses": {change: func(m *memory) { m.put(Write{Key: "ipaddresses/10.0.0.1", Raw: []byte("k8s:enc:x")}) }, want: "--plain"},
		"a broken Service":      {change: func(m *memory) { m.put(Write{Key: "services/specs/default/kubernetes", Raw: []byte("?")}) }}, // others say so
		"encrypted Secrets":     {change: func(m *memory) { m.put(Write{Key: "secrets/default/x", Raw: []byte("k8s:enc:x")}) }},
		"nobody answers":        {change: func(m *memory) { m.before = func(call) error { return away } }, want: "away"},
	} {
		t.Run(name, func(t *testing.T) {
			m := holding(World{Services: []Service{inDefault}})
			tc.change(m)
			err := Plain(t.Context(), m)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
