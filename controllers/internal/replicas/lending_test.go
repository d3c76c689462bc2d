package replicas

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	mine, lentOut = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	elsewhere     = netip.MustParseAddr("10.0.0.3")
)

// owner owns mine and lentOut, of which the first is free.
func owner() *lending {
	return newLending("owner",
		func(a netip.Addr) bool { return a == mine },
		func(a netip.Addr) bool { return a != elsewhere })
}

func TestOwnerAnswersWhatItIsAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		letters      []string // of replica b
		want         string
		wantAnswered bool
	}{
		"a free address is lent":           {[]string{`{"asks":{"1":"10.0.0.1"}}`}, `{"answers":{"b/1":true}}`, true},
		"another one is not":               {[]string{`{"asks":{"1":"10.0.0.2"}}`}, `{"answers":{"b/1":false}}`, true},
		"what others own is not its thing": {[]string{`{"asks":{"1":"10.0.0.3"}}`}, ``, false},
		"junk is no ask":                   {[]string{`{"asks":{"1":"10.0.0"}}`}, ``, false},
		"nor is what cannot be read":       {[]string{`{"asks":`}, ``, false},
		"no letter says nothing":           {[]string{``}, ``, false},
		"an ask is answered once": {
			[]string{`{"asks":{"1":"10.0.0.1"}}`, `{"asks":{"1":"10.0.0.1"}}`}, `{"answers":{"b/1":true}}`, false,
		},
		"the answer goes with the ask": {[]string{`{"asks":{"1":"10.0.0.1"}}`, ``}, ``, false},
		"several asks go together": {
			[]string{`{"asks":{"1":"10.0.0.1"}}`, `{"asks":{"1":"10.0.0.1","2":"10.0.0.2"}}`}, `{"answers":{"b/1":true,"b/2":false}}`, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := owner()
			answered := false
			for _, text := range tc.letters {
				answered = l.received("b", text)
			}
			if diff := cmp.Diff(tc.want, l.text()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if answered != tc.wantAnswered {
				t.Errorf("the last letter was to be answered: %t, want %t", answered, tc.wantAnswered)
			}
		})
	}
}

func TestOwnerForgetsWhoWent(t *testing.T) {
	l := owner()
	l.received("b", `{"asks":{"1":"10.0.0.1"}}`)
	l.received("c", `{"asks":{"1":"10.0.0.2"}}`)
	l.gone(map[string]bool{"c": true})
	if diff := cmp.Diff(`{"answers":{"c/1":false}}`, l.text()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBorrowerHearsItsOwnAnswers(t *testing.T) {
	b := newLending("b", nil, func(netip.Addr) bool { return false })
	granted, refused, unheard := b.ask("1", mine), b.ask("2", lentOut), b.ask("3", elsewhere)
	b.received("owner", `{"answers":{"b/1":true,"b/2":false,"c/3":true}}`)
	b.received("owner", `{"answers":{"b/1":false}}`)
	if !<-granted || <-refused || len(unheard) > 0 {
		t.Error("the answers are not those of the first letter")
	}
	for _, nonce := range []string{"1", "2", "3"} {
		b.drop(nonce)
	}
	if got := b.text(); got != "" {
		t.Errorf("asks that were dropped are still written: %s", got)
	}
}
