package trace

import "fmt"

// answer says whether a match holds. The zero value says no.
type answer struct {
	// chance is the probability with which it holds: 0 is no, 1 is yes.
	chance float64
	// unknown says why it cannot be told; chance then means nothing.
	unknown string
}

var (
	yes = answer{chance: 1}
	no  = answer{}
)

func cannotTell(format string, args ...any) answer {
	return answer{unknown: fmt.Sprintf(format, args...)}
}

func when(holds bool) answer {
	if holds {
		return yes
	}
	return no
}

// not is the answer of the match with an exclamation mark.
func (a answer) not() answer {
	if a.unknown == "" {
		a.chance = 1 - a.chance
	}
	return a
}
