package migration

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/ptr"
)

func TestDualWrites(t *testing.T) {
	of := func(minor string) *version.Info { return &version.Info{Major: "1", Minor: minor} }
	for name, tc := range map[string]struct {
		a                  APIServer
		wantMay, wantKeeps bool
	}{
		"1.33":                  {APIServer{Version: of("33")}, true, true},
		"1.34":                  {APIServer{Version: of("34")}, true, false},
		"1.34 that says no":     {APIServer{Version: of("34"), BitmapOff: new(true)}, false, false},
		"1.34 that says yes":    {APIServer{Version: of("34"), BitmapOff: new(false)}, true, true},
		"1.35":                  {APIServer{Version: of("35")}, false, false},
		"a vendor's 1.36":       {APIServer{Version: of("36+")}, false, false},
		"one that is away":      {APIServer{Version: of("36"), Err: errors.New("refused")}, true, false},
		"one that says nothing": {APIServer{}, true, false},
	} {
		if may, keeps := tc.a.DualWrites(), tc.a.KeepsBitmaps(); may != tc.wantMay || keeps != tc.wantKeeps {
			t.Errorf("%s may write bitmaps: %v, does so for certain: %v", name, may, keeps)
		}
	}
}

// Each endpoint is asked once at each port that is said, in both families.
func TestAddressesOfAPIServers(t *testing.T) {
	slice := func(port *int32, hosts ...string) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Port: port}}, Endpoints: []discoveryv1.Endpoint{{Addresses: hosts}}}
	}
	got := addresses([]discoveryv1.EndpointSlice{
		slice(ptr.To[int32](6443), "10.1.0.1", "10.1.0.2"), slice(ptr.To[int32](6444), "fd01::1"), slice(ptr.To[int32](6443), "10.1.0.1"),
		slice(nil, "10.1.0.1"), slice(ptr.To[int32](6443)),
	})
	mustEqual(t, "addresses", got, []string{"10.1.0.1:6443", "10.1.0.2:6443", "[fd01::1]:6444"})
}

// An API server that runs renews its key; that of one which was killed goes after a while.
func TestNoneAlive(t *testing.T) {
	away := errors.New("away")
	for name, tc := range map[string]struct {
		// leases are the keys that exist, and after what time the test deletes them; 0 for never.
		leases map[string]time.Duration
		before func(call) error
		// want is a piece of the error. wantAfter is when it is known.
		want      string
		wantAfter time.Duration
	}{
		"none":            {},
		"one was killed":  {leases: map[string]time.Duration{"masterleases/10.1.0.1": 14500 * time.Millisecond}, wantAfter: 15 * time.Second},
		"one runs":        {leases: map[string]time.Duration{"masterleases/10.1.0.1": 0}, want: "10.1.0.1, which renews its key", wantAfter: 21 * time.Second},
		"nobody can tell": {before: func(call) error { return away }, want: "looking for API servers that run: away"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, begin := newMemory(), time.Now()
				for key, after := range tc.leases {
					m.put(Write{Key: key, Raw: []byte("lease")})
					if after > 0 {
						time.AfterFunc(after, func() { m.remove(key) })
					}
				}
				m.before = tc.before
				mustSay(t, NoneAlive(t.Context(), m), tc.want)
				if spent := time.Since(begin); spent > tc.wantAfter {
					t.Errorf("it took %v", spent)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.put(Write{Key: "masterleases/10.1.0.1", Raw: []byte("lease")})
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		if err := NoneAlive(ctx, m); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("told to end: %v", err)
		}
	})
}

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
		"nobody answers":        {change: func(m *memory) { m.before = func(call) error { return away } }, want: "away"},
	} {
		t.Run(name, func(t *testing.T) {
			m := holding(Snapshot{Services: []Service{inDefault}})
			tc.change(m)
			mustSay(t, Plain(t.Context(), m), tc.want)
		})
	}
}
