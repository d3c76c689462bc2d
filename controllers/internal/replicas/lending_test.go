package replicas

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	mine, lentOut = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	elsewhere     = netip.MustParseAddr("10.0.0.3")
	inherited     = netip.MustParseAddr("10.0.0.4")
)

// owner owns mine and lentOut, of which the first is free, and has inherited a free address.
func owner() *lending {
	return newLending("owner",
		func(a netip.Addr) bool { return a == mine || a == inherited },
		func(a netip.Addr) Grant {
			switch a {
			case elsewhere:
				return Refused
			case inherited:
				return Claimable
			}
			return Outright
		})
}

func TestOwnerAnswersWhatItIsAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		letters      []string // of replica b
		want         string
		wantAnswered bool
	}{
		"a free address is lent":             {[]string{`{"asks":{"1":{"to":"owner","address":"10.0.0.1"}}}`}, `{"answers":{"b/1":2}}`, true},
		"another one is not":                 {[]string{`{"asks":{"1":{"to":"owner","address":"10.0.0.2"}}}`}, `{"answers":{"b/1":0}}`, true},
		"an inherited one may be claimed":    {[]string{`{"asks":{"1":{"to":"owner","address":"10.0.0.4"}}}`}, `{"answers":{"b/1":1}}`, true},
		"what others own is not its thing":   {[]string{`{"asks":{"1":{"to":"owner","address":"10.0.0.3"}}}`}, `{"answers":{"b/1":3}}`, true},
		"nor what others are asked":          {[]string{`{"asks":{"1":{"to":"other","address":"10.0.0.1"}}}`}, ``, false},
		"a nonce as long as a novel is none": {[]string{`{"asks":{"` + strings.Repeat("x", 17) + `":{"to":"owner","address":"10.0.0.1"}}}`}, ``, false},
		"junk is no ask":                     {[]string{`{"asks":{"1":{"to":"owner","address":"10.0.0"}}}`}, ``, false},
		"nor is what cannot be read":         {[]string{`{"asks":`}, ``, false},
		"no letter says nothing":             {[]string{``}, ``, false},
		"an ask is answered once": {
			[]string{`{"asks":{"1":{"to":"owner","address":"10.0.0.1"}}}`, `{"asks":{"1":{"to":"owner","address":"10.0.0.1"}}}`}, `{"answers":{"b/1":2}}`, false,
		},
		"the answer goes with the ask": {[]string{`{"asks":{"1":{"to":"owner","address":"10.0.0.1"}}}`, ``}, ``, false},
		"several asks go together": {
			[]string{`{"asks":{"1":{"to":"owner","address":"10.0.0.1"}}}`, `{"asks":{"1":{"to":"owner","address":"10.0.0.1"},"2":{"to":"owner","address":"10.0.0.2"}}}`}, `{"answers":{"b/1":2,"b/2":0}}`, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := owner()
			answered := false
			for _, text := range tc.letters {
				answered = l.received("b", "", text)
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

// A list that was on its way takes no answer back.
func TestOldLettersAreOldNews(t *testing.T) {
	l := owner()
	l.received("b", "12", `{"asks":{"1":{"to":"owner","address":"10.0.0.1"}}}`)
	l.received("b", "11", ``)
	if diff := cmp.Diff(`{"answers":{"b/1":2}}`, l.text()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	l.received("b", "13", ``)
	if got := l.text(); got != "" {
		t.Errorf("after a later one the answer still stands: %s", got)
	}
}

func TestOwnerForgetsWhoWent(t *testing.T) {
	l := owner()
	l.received("b", "", `{"asks":{"1":{"to":"owner","address":"10.0.0.1"}}}`)
	l.received("c", "", `{"asks":{"1":{"to":"owner","address":"10.0.0.2"}}}`)
	l.gone(map[string]bool{"c": true})
	if diff := cmp.Diff(`{"answers":{"c/1":0}}`, l.text()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBorrowerHearsItsOwnAnswers(t *testing.T) {
	b := newLending("b", nil, func(netip.Addr) Grant { return Refused })
	granted, refused, unheard := b.ask("1", "owner", mine), b.ask("2", "owner", lentOut), b.ask("3", "owner", elsewhere)
	b.received("owner", "", `{"answers":{"b/1":2,"b/2":0,"c/3":2}}`)
	b.received("owner", "", `{"answers":{"b/1":0}}`)
	if <-granted != Outright || <-refused != Refused || len(unheard) > 0 {
		t.Error("the answers are not those of the first letter")
	}
	for _, nonce := range []string{"1", "2", "3"} {
		b.drop(nonce)
	}
	if got := b.text(); got != "" {
		t.Errorf("asks that were dropped are still written: %s", got)
	}
}

// read takes a letter apart.
func read(t *testing.T, text string) (l letter) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLetterHasRoomForSomeAsks(t *testing.T) {
	b := newLending("b", nil, nil)
	nonce := func(i int) string { return fmt.Sprintf("n%d", i) }
	for i := range 3 * mostAsks {
		b.ask(nonce(i), "owner", mine)
	}
	first := read(t, b.text()).Asks
	if _, oldest := first[nonce(0)]; len(first) != mostAsks || !oldest {
		t.Errorf("the first letter has %d asks, the oldest: %t", len(first), oldest)
	}
	b.ask("late", "owner", mine)
	if diff := cmp.Diff(first, read(t, b.text()).Asks); diff != "" {
		t.Errorf("what is asked for changes before it is answered, -want +got:\n%s", diff)
	}
	for i := range mostAsks {
		if !b.drop(nonce(i)) {
			t.Fatal("nobody is said to wait for the room")
		}
	}
	second := read(t, b.text()).Asks
	if _, next := second[nonce(mostAsks)]; len(second) != mostAsks || !next {
		t.Errorf("the second letter has %d asks, the next one in line: %t", len(second), next)
	}
	for i := mostAsks; i < 3*mostAsks; i++ {
		b.drop(nonce(i))
	}
	if b.drop("late") || b.text() != "" {
		t.Errorf("when all is dropped, this is left: %s", b.text())
	}
}

// A Lease that somebody forged must neither empty a range nor make ours too large to be written.
func TestForgedLettersDoLittleHarm(t *testing.T) {
	lent := 0
	l := newLending("owner", func(netip.Addr) bool { lent++; return true }, func(netip.Addr) Grant { return Outright })
	forged := letter{Asks: map[string]ask{}}
	for i := range 10_000 {
		forged.Asks[fmt.Sprintf("%016d", i)] = ask{To: "owner", Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256)}
	}
	text, err := json.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		from := fmt.Sprintf("%d-%s", i, strings.Repeat("x", 240))
		l.received(from, "", string(text))
		if i == 0 && lent != mostAnswers {
			t.Errorf("by one letter %d addresses were lent", lent)
		}
		l.received(from, "", string(text))
	}
	if lent != mostStanding {
		t.Errorf("by all letters %d addresses were lent, want %d", lent, mostStanding)
	}
	if size := len(l.text()); size > 240<<10 {
		t.Errorf("the answer has %d bytes", size)
	}
	l.gone(nil)
	if !l.received("b", "", `{"asks":{"1":{"to":"owner","address":"10.0.0.1"}}}`) {
		t.Error("who asks after that gets no answer")
	}
}
