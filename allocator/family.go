package allocator

// family is what is used in one family. Whatever is reserved, cooling or assumed is also used; what is used
// and none of these is allocated.
type family struct {
	used     Set
	reserved Set
	assumed  Set
	cooling  queue
	changes  uint64 // how often an address became used, or free again
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
	if mark(&f.used, a, s != Free) {
		f.changes++
	}
	mark(&f.assumed, a, s == Assumed)
	mark(&f.reserved, a, s == Reserved)
	f.cooling.remove(a)
}

// cool makes a Cooling, unless it is Assumed.
func (f *family) cool(a uint128, since int64) {
	if f.assumed.contains(a) {
		return
	}
	f.use(a)
	f.reserved.delete(a)
	f.cooling.put(a, since)
}

// use makes a used and reports whether it was free. It is up to the caller to say what it is used for.
func (f *family) use(a uint128) bool {
	if !f.used.insert(a) {
		return false
	}
	f.changes++
	return true
}

// mark puts a into s or takes it out, and reports whether that changed anything.
func mark(s *Set, a uint128, member bool) bool {
	if member {
		return s.insert(a)
	}
	return s.delete(a)
}

// usage counts the used addresses of iv; Size and Free are left to the caller.
func (f *family) usage(iv interval) Usage {
	u := Usage{Reserved: f.reserved.countIn(iv), Cooling: f.cooling.countIn(iv)}
	u.Allocated = f.used.countIn(iv) - u.Reserved - u.Cooling
	return u
}
