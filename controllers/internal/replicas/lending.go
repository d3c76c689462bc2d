package replicas

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	// mostAsks is how many asks go into one letter. Whatever else is waiting goes into the next ones, so that a letter stays far below what
	// an API server takes as annotations of one object, 256 KiB: a Lease that is too large is not renewed.
	mostAsks = 64
	// mostAnswers is how many asks of one letter are answered. No replica writes that many: the rest of such a letter is passed over, lest one
	// letter take all free addresses away.
	mostAnswers = 4 * mostAsks
	// mostStanding is how many answers stand at once, to whomever. With names and nonces as long as they may be they still fit into a letter.
	mostStanding = 3 * mostAnswers
	// longestNonce is more than any replica's. An answer repeats it.
	longestNonce = 16
)

// letter is what a Lease says about addresses that its holder would like to borrow, and about those that others asked it for. The zero
// letter says nothing.
type letter struct {
	// Asks are by a nonce.
	Asks map[string]ask `json:"asks,omitempty"`
	// Answers are by the asker's name and its nonce, as in "replica-1/k3j9x". They stand as long as the ask does.
	Answers map[string]Grant `json:"answers,omitempty"`
}

// ask is for an address, of the replica that settles it as the asker believes. That one answers, whatever it believes itself.
type ask struct {
	To      string `json:"to"`
	Address string `json:"address"`
}

// lending keeps the asks of this replica, and its answers to others. It is safe for concurrent use.
type lending struct {
	me string
	// lend takes a free address out of the own draws, on behalf of another replica; false if it is not free.
	lend func(netip.Addr) bool
	// right is what this replica may do with an address by itself, and so may lend.
	right func(netip.Addr) Grant
	// blamed is told for which address another replica is asked of which this one believes that somebody else settles it.
	blamed func(netip.Addr)

	mu      sync.Mutex
	waiting map[string]chan Grant
	asks    map[string]ask
	// sent is when the letter with an ask was written; drafted are the nonces in the latest letter.
	sent    map[string]time.Time
	drafted []string
	// queue has the nonces of asks in the order in which they came; dropped ones are in it until the next letter.
	queue   []string
	answers map[string]Grant
	// latest are the versions of the latest letters, by who wrote them.
	latest map[string]string
	// of are the keys of answers by who asked.
	of map[string][]string
}

func newLending(me string, lend func(netip.Addr) bool, right func(netip.Addr) Grant) *lending {
	return &lending{
		me: me, lend: lend, right: right,
		blamed: func(netip.Addr) {}, waiting: map[string]chan Grant{}, asks: map[string]ask{}, sent: map[string]time.Time{}, latest: map[string]string{}, answers: map[string]Grant{}, of: map[string][]string{},
	}
}

// ask enters an ask; the answer comes by the channel, if it comes.
func (l *lending) ask(nonce, to string, a netip.Addr) <-chan Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := make(chan Grant, 1)
	l.waiting[nonce], l.asks[nonce] = answer, ask{To: to, Address: a.String()}
	l.queue = append(l.queue, nonce)
	return answer
}

// drop ends an ask. The next letter is without it, and after that the answer goes too. It reports whether others wait for the room.
func (l *lending) drop(nonce string) (others bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	others = len(l.asks) > mostAsks
	delete(l.waiting, nonce)
	delete(l.asks, nonce)
	delete(l.sent, nonce)
	return others
}

// delivered notes that the latest letter was written.
func (l *lending) delivered(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, nonce := range l.drafted {
		if _, stands := l.asks[nonce]; stands && l.sent[nonce].IsZero() {
			l.sent[nonce] = now
		}
	}
}

// sentAt is when an ask that stands was written; the zero time if it was not.
func (l *lending) sentAt(nonce string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent[nonce]
}

// text is the letter of this replica, empty if it has nothing to say. Equal letters are equal texts.
func (l *lending) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drafted = nil
	if len(l.asks) == 0 && len(l.answers) == 0 {
		return ""
	}
	body, err := json.Marshal(letter{Asks: l.oldest(), Answers: l.answers})
	if err != nil {
		return "" // maps of texts can be written
	}
	return string(body)
}

// oldest are the asks that go into a letter; the caller holds mu. One that is in a letter stays in the following ones until it is dropped.
func (l *lending) oldest() map[string]ask {
	l.queue = slices.DeleteFunc(l.queue, func(nonce string) bool { _, stands := l.asks[nonce]; return !stands })
	out := map[string]ask{}
	l.drafted = slices.Clone(l.queue[:min(len(l.queue), mostAsks)])
	for _, nonce := range l.drafted {
		out[nonce] = l.asks[nonce]
	}
	return out
}

// received reads the letter of another replica, and reports whether it has to be answered. A letter that cannot be read says nothing.
//
// A letter that is older than the last one is old news: a list may have been on its way while the watch told of a later one.
func (l *lending) received(from, version, text string) (answered bool) {
	if l.outdated(from, version) {
		return false
	}
	var in letter
	if text != "" && json.Unmarshal([]byte(text), &in) != nil {
		return false
	}
	l.hear(in.Answers)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(from, in.Asks)
	for nonce, asked := range in.Asks {
		key := from + "/" + nonce
		if _, done := l.answers[key]; done || asked.To != l.me || len(nonce) > longestNonce {
			continue
		}
		if len(l.of[from]) >= mostAnswers || len(l.answers) >= mostStanding {
			return answered
		}
		a, err := netip.ParseAddr(asked.Address)
		if err != nil {
			continue
		}
		l.answers[key] = l.judge(a)
		l.of[from] = append(l.of[from], key)
		answered = true
	}
	return answered
}

// judge decides what another replica may do with an address; the caller holds mu.
func (l *lending) judge(a netip.Addr) Grant {
	grant := l.right(a)
	if grant == Refused {
		l.blamed(a)
		grant = l.right(a)
	}
	switch {
	case grant == Refused:
		return Elsewhere
	case !l.lend(a):
		return Refused
	}
	return grant
}

// outdated notes the version of a letter, and reports whether a later one was there before.
func (l *lending) outdated(from, version string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(version, l.latest[from]); err == nil && order < 0 {
		return true
	}
	l.latest[from] = version
	return false
}

// hear hands answers on to those who wait for them.
func (l *lending) hear(answers map[string]Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for nonce, answer := range l.waiting {
		if granted, ok := answers[l.me+"/"+nonce]; ok {
			answer <- granted
			delete(l.waiting, nonce)
		}
	}
}

// forget drops the answers to asks that stand no longer; the caller holds mu.
func (l *lending) forget(from string, asks map[string]ask) {
	var left []string
	for _, key := range l.of[from] {
		if _, stands := asks[key[len(from)+1:]]; stands {
			left = append(left, key)
		} else {
			delete(l.answers, key)
		}
	}
	if len(left) > 0 {
		l.of[from] = left
	} else {
		delete(l.of, from)
	}
}

// gone drops what was said to a replica that is there no longer.
func (l *lending) gone(living map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for from := range maps.Clone(l.of) {
		if !living[from] {
			l.forget(from, nil)
		}
	}
	maps.DeleteFunc(l.latest, func(from, _ string) bool { return !living[from] })
}
