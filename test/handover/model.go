package handover

import "fmt"

// Guards are what writes are protected by. The operator has all of them.
type Guards struct {
	// UID and Version are preconditions of deletions. Name: a creation fails if the name exists.
	UID, Version, Name bool
	// Ledger is the precondition of a write of the ledger: the version that it replaces.
	Ledger bool
	// Confirm has a manager ask for the Services after it has seen the IPAddress, not before.
	Confirm bool
	// Patience is that an IPAddress without a Service is left alone while its Service may come.
	Patience bool
}

// object is the IPAddress, the zero one is none.
type object struct {
	uid, version uint8
	service      uint8 // 1 or 2, which it names
	foreign      bool  // another program looks after it
}

// kind is what a manager is about to write.
type kind uint8

const (
	nothing kind = iota
	looked       // it has read the IPAddress, or without Confirm the Services, and goes on
	remove
	create
	record // an owner, in the ledger
)

// write is what a manager has decided, and on what.
type write struct {
	kind    kind
	object  object
	has     [2]bool
	service uint8
	version uint8 // of the ledger
	owners  uint8 // of the ledger, as a set
}

// state is everything. Versions come from one counter, as in etcd.
type state struct {
	clock   uint8
	object  object
	has     [2]bool // Services that have the address
	coming  [2]bool // whose IPAddress is written, and which are not there yet
	ledger  uint8   // the version
	owners  uint8   // in the ledger
	written uint8   // every owner that was ever written into it
	leads   [2]bool // managers that believe so
	holder  uint8   // who has the Lease, 0 or 1
	writes  [2]write
	harm    string
}

// most bounds how often anything is written, so that there is an end.
const most = 5

// first has a Service with the address, and manager 1 as leader.
var first = state{clock: 1, object: object{uid: 1, version: 1, service: 1}, has: [2]bool{true, false}, leads: [2]bool{true, false}}

func broken(s state) string {
	switch {
	case s.harm != "":
		return s.harm
	case s.has[0] && s.has[1]:
		return "two Services have the address"
	case s.owners&s.written != s.written:
		return "the ledger has lost an owner"
	default:
		return ""
	}
}

// next is all that may happen.
func (g Guards) next(s state) (out []step[state]) {
	if broken(s) != "" {
		return nil
	}
	add := func(to state, text string, args ...any) {
		out = append(out, step[state]{fmt.Sprintf(text, args...), to})
	}
	if s.clock < most {
		g.users(s, add)
	}
	for m := range s.leads {
		if s.leads[m] && m != int(s.holder) {
			to := s
			to.leads[m] = false
			add(to, "manager %d notices that it does not lead", m+1)
		}
		switch w := s.writes[m]; {
		case w.kind == nothing && s.leads[m]:
			g.look(s, m, add)
		case w.kind == looked:
			g.decide(s, m, add)
		case w.kind != nothing && s.clock < most:
			add(g.arrive(s, m), "the write of manager %d arrives", m+1)
		}
	}
	to := s
	to.holder = 1 - s.holder
	to.leads[to.holder] = true
	add(to, "the Lease passes to manager %d", to.holder+1)
	return out
}

// users create and delete Services, as an API server does it, and look after an IPAddress.
func (g Guards) users(s state, add func(state, string, ...any)) {
	for i := range s.has {
		to, service := s, uint8(i+1)
		switch {
		case s.has[i]: // a Service goes with its IPAddress, unless the API server dies in between
			to.has[i] = false
			add(to, "Service %d goes, and the API server dies before it deletes the IPAddress", i+1)
			if to.object.service == service && !to.object.foreign {
				to.object = object{}
			}
			add(to, "Service %d goes", i+1)
		case s.coming[i]:
			to.coming[i], to.has[i] = false, true
			add(to, "Service %d is there", i+1)
		case s.object == object{}:
			to.clock++
			to.object, to.coming[i] = object{to.clock, to.clock, service, false}, true
			add(to, "Service %d gets its IPAddress", i+1)
		}
	}
	if to := s; s.object.uid != 0 && !s.object.foreign && !s.has[s.object.service-1] && !s.coming[s.object.service-1] {
		to.clock++
		to.object.version, to.object.foreign = to.clock, true
		add(to, "a user gives the IPAddress to another program")
	}
}

// look begins a decision: a manager reads the IPAddress first, or the Services, without Confirm.
func (g Guards) look(s state, m int, add func(state, string, ...any)) {
	to := s
	to.writes[m] = write{kind: looked, object: s.object, has: s.has}
	add(to, "manager %d looks", m+1)
	to.writes[m] = write{kind: record, version: s.ledger, owners: s.owners | set(s.has)}
	if to.writes[m].owners != s.owners {
		add(to, "manager %d decides to write the owners %02b into version %d of the ledger", m+1, to.writes[m].owners, s.ledger)
	}
}

// set is Services as a set.
func set(has [2]bool) (out uint8) {
	for i, is := range has {
		if is {
			out |= 1 << i
		}
	}
	return out
}

// decide is what a manager makes of what it read before, and reads now.
func (g Guards) decide(s state, m int, add func(state, string, ...any)) {
	to, saw, has := s, s.writes[m].object, s.has
	if !g.Confirm {
		saw, has = s.object, s.writes[m].has
	}
	to.writes[m] = write{}
	owner := saw.service
	switch {
	case saw.uid != 0 && !saw.foreign && !has[owner-1] && (!g.Patience || !s.coming[owner-1]):
		to.writes[m] = write{kind: remove, object: saw}
		add(to, "manager %d decides to delete IPAddress %d of Service %d, which is gone", m+1, saw.uid, owner)
	case saw.uid == 0 && (has[0] || has[1]):
		i := uint8(1)
		if !has[0] {
			i = 2
		}
		to.writes[m] = write{kind: create, service: i}
		add(to, "manager %d decides to write the IPAddress of Service %d", m+1, i)
	default:
		add(to, "manager %d finds all in order", m+1)
	}
}

// arrive is the API server's answer to the write of a manager.
func (g Guards) arrive(s state, m int) state {
	w := s.writes[m]
	s.writes[m] = write{}
	at := s.object
	switch {
	case w.kind == remove && (at == object{} || g.UID && at.uid != w.object.uid || g.Version && at.version != w.object.version),
		w.kind == create && g.Name && at != object{},
		w.kind == record && g.Ledger && s.ledger != w.version: // refused
	case w.kind == remove:
		s.harm = harm(s)
		s.object = object{}
	case w.kind == create:
		if at.service != w.service {
			s.harm = harm(s)
		}
		s.clock++
		s.object = object{s.clock, s.clock, w.service, false}
	case w.kind == record:
		s.clock++
		s.ledger, s.owners, s.written = s.clock, w.owners, s.written|w.owners
	}
	return s
}

// harm is what is wrong with taking the IPAddress away.
func harm(s state) string {
	switch at := s.object; {
	case at == object{}:
		return ""
	case at.foreign:
		return "a manager takes away what another program looks after"
	case s.has[at.service-1] || s.coming[at.service-1]:
		return "a manager takes the IPAddress of a Service away"
	default:
		return ""
	}
}
