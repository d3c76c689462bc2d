package report

import "fmt"

// Target says whether a goal was reached, in the words of the document.
func Target(reached bool, goal, measured string) string {
	verdict := "missed"
	if reached {
		verdict = "reached"
	}
	return fmt.Sprintf("Target %s: %s (%s).", verdict, goal, measured)
}
