package replicas

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"sync"
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
	// Asks are addresses by a nonce.
	Asks map[string]string `json:"asks,omitempty"`
	// Answers are by the asker's name and its nonce, as in "replica-1/k3j9x". They stand as long as the ask does.
	Answers map[string]Grant `json:"answers,omitempty"`
}

// lending keeps the asks of this replica, and its answers to others. It is safe for concurrent use.
type lending struct {
	me string
	// lend takes a free address out of the own draws, on behalf of another replica; false if it is not free.
	lend func(netip.Addr) bool
	// right is what this replica may do with an address by itself, and so may lend.
	right func(netip.Addr) Grant

	mu      sync.Mutex
	waiting map[string]chan Grant
	asks    map[string]string
	// queue has the nonces of asks in the order in which they came; dropped ones are in it until the next letter.
	queue   []string
	answers map[string]Grant
	// of are the keys of answers by who asked.
	of map[string][]string
}

func newLending(me string, lend func(netip.Addr) bool, right func(netip.Addr) Grant) *lending {
	return &lending{
		me: me, lend: lend, right: right,
		waiting: map[string]chan Grant{}, asks: map[string]string{}, answers: map[string]Grant{}, of: map[string][]string{},
	}
}

// ask enters an ask; the answer comes by the channel, if it comes.
func (l *lending) ask(nonce string, a netip.Addr) <-chan Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := make(chan Grant, 1)
	l.waiting[nonce], l.asks[nonce] = answer, a.String()
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
	return others
}

// text is the letter of this replica, empty if it has nothing to say. Equal letters are equal texts.
func (l *lending) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
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
func (l *lending) oldest() map[string]string {
	l.queue = slices.DeleteFunc(l.queue, func(nonce string) bool { _, stands := l.asks[nonce]; return !stands })
	out := map[string]string{}
	for _, nonce := range l.queue[:min(len(l.queue), mostAsks)] {
		out[nonce] = l.asks[nonce]
	}
	return out
}

// received reads the letter of another replica, and reports whether it has to be answered. A letter that cannot be read says nothing.
func (l *lending) received(from, text string) (answered bool) {
	var in letter
	if text != "" && json.Unmarshal([]byte(text), &in) != nil {
		return false
	}
	l.hear(in.Answers)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(from, in.Asks)
	for nonce, address := range in.Asks {
		key := from + "/" + nonce
		if _, done := l.answers[key]; done || len(nonce) > longestNonce {
			continue
		}
		if len(l.of[from]) >= mostAnswers || len(l.answers) >= mostStanding {
			return answered
		}
		a, err := netip.ParseAddr(address)
		if err != nil {
			continue
		}
		grant := l.right(a)
		if grant == Refused {
			continue // whoever settles it answers
		}
		if !l.lend(a) {
			grant = Refused
		}
		l.answers[key] = grant
		l.of[from] = append(l.of[from], key)
		answered = true
	}
	return answered
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
func (l *lending) forget(from string, asks map[string]string) {
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
}
