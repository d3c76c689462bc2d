package steering

import "time"

// Options say what to measure. The zero Options measure nothing; see Full and Quick.
type Options struct {
	// Sizes are numbers of Services that exist, Policies numbers of policies, Families and Clients numbers of those: creation is
	// measured with every combination, but more than one family only with the most policies.
	Sizes, Policies, Families, Clients []int
	// Rounds is how often each has its turn, with and without webhooks. In a turn one client makes Single calls, several make Many.
	Rounds, Single, Many int

	// FullRounds is how often what is left of a range at 99 % is filled.
	FullRounds int
	// Reserved is how many addresses a policy reserves, Rested how many rest.
	Reserved, Rested int
	// Crowd is how many policies and ranges a manager has whose memory is measured.
	Crowd int
	// Repeats is how often each micro benchmark runs, and Bench for how long.
	Repeats int
	Bench   time.Duration
}

// Full is what the documentation shows.
func Full() Options {
	return Options{
		Sizes: []int{0, 5_000, 20_000}, Policies: []int{0, 100}, Families: []int{1, 2}, Clients: []int{1, 16},
		Rounds: 3, Single: 60, Many: 160, FullRounds: 6, Reserved: 1024, Rested: 500, Crowd: 1_000, Repeats: 3, Bench: 200 * time.Millisecond,
	}
}

// Quick is for a look at whether the benchmark itself works.
func Quick() Options {
	return Options{
		Sizes: []int{0, 500}, Policies: []int{0, 100}, Families: []int{1}, Clients: []int{1, 16},
		Rounds: 1, Single: 20, Many: 60, FullRounds: 2, Reserved: 64, Rested: 50, Crowd: 100, Repeats: 1, Bench: 20 * time.Millisecond,
	}
}
