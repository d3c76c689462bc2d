package allocator

// family is what is used in one family. Whatever is reserved, cooling or assumed is also used; what is used
// and none of these is allocated.
type family struct {
	used     Set
	reserved Set
	assumed  Set
	cooling  queue
}

// state returns the state of a.
func (f *family) state(a uint128) State {
	switch {
	case !f.used.contains(a):
		return Free
	case f.assumed.contains(a):
		return Assumed
	case f.reserved.contains(a):
		return Reserved
	case f.cooling.contains(a):
		return Cooling
	default:
		return Allocated
	}
}

// set makes a what s says, whatever it was. Cooling takes a time, see cool.
func (f *family) set(a uint128, s State) {
	mark(&f.used, a, s != Free)
	mark(&f.assumed, a, s == Assumed)
	mark(&f.reserved, a, s == Reserved)
	f.cooling.remove(a)
}

// cool makes a Cooling, unless it is Assumed.
func (f *family) cool(a uint128, since int64) {
	if f.assumed.contains(a) {
		return
	}
	f.used.insert(a)
	f.reserved.delete(a)
	f.cooling.put(a, since)
}

// mark puts a into s or takes it out.
func mark(s *Set, a uint128, member bool) {
	if member {
		s.insert(a)
	} else {
		s.delete(a)
	}
}

// usage counts the used addresses of iv; Size and Free are left to the caller.
func (f *family) usage(iv interval) Usage {
	u := Usage{Reserved: f.reserved.countIn(iv), Cooling: f.cooling.countIn(iv)}
	u.Allocated = f.used.countIn(iv) - u.Reserved - u.Cooling
	return u
}
