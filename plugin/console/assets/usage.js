// How much of a range is used for what, by the rules of `kubectl clusterip ranges`. Pure functions.

// sum adds up what the two bands of a range have.
export const sum = (r, what) => (r.static[what] ?? 0) + (r.dynamic[what] ?? 0)

// used is how many per cent of a range Services have. What is reserved or cools down is counted by itself.
export const used = r => sum(r, 'size') === 0 ? 100 : Math.floor(sum(r, 'allocated') / sum(r, 'size') * 100)

// full reports whether new Services get no address any more. Those that cool down are given out last.
export const full = r => sum(r, 'free') + sum(r, 'cooling') === 0

// room is how many addresses Services can have at most.
export const room = r => sum(r, 'size') - sum(r, 'reserved')
