package history

import (
	"slices"
	"strings"
)

// Reasons for which an address may go to a second Service without a fault of the operator.
const (
	// ByRepair: the API server deleted a living Service's IPAddress, by name, in its repair or when
	// it deleted another Service that had the address before.
	ByRepair = "the API server has deleted the IPAddress of a living Service"
	// ByOutage: the IPAddress was missing, and no webhook answered that would have known.
	ByOutage = "no webhook answered"
)

// Excuses are those of requests.
func Excuses(requests []Request) Excuse {
	answered := byAnswer(requests)
	return func(o Operation, others []string) string {
		if o.Kind != Take {
			return ""
		}
		var owner, deletedBy string // of the IPAddress
		failedOpen := false
		for _, r := range answered {
			if !r.Granted() || r.Done.After(o.Return) {
				continue
			}
			switch {
			case r.Resource == "services":
				if r.Namespace+"/"+r.Name == name(o.Service) && r.Answer != nil && slices.Contains(r.Answer.Addresses, o.Address) && !r.Received.Before(o.Call) {
					failedOpen = r.Chosen == FailedOpen
				}
			case r.Name != o.Address.String() || r.Answer == nil:
			case r.Answer.Ends:
				deletedBy = r.User
			case r.Answer.Parent != name(o.Service):
				owner, deletedBy = r.Answer.Parent, ""
			}
		}
		switch {
		case deletedBy == "system:apiserver" && slices.ContainsFunc(others, func(s string) bool { return name(s) == owner }):
			return ByRepair
		case failedOpen:
			return ByOutage
		default:
			return ""
		}
	}
}

// byAnswer sorts requests.
func byAnswer(requests []Request) []Request {
	return slices.SortedStableFunc(slices.Values(requests), func(a, b Request) int { return a.Done.Compare(b.Done) })
}

// In returns those excused with a reason.
func (v Verdict) In(reason string) []Operation {
	return slices.DeleteFunc(slices.Clone(v.Excused), func(o Operation) bool { return !strings.HasPrefix(o.Excused, reason) })
}
