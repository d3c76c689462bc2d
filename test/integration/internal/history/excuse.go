package history

import (
	"slices"
	"strings"
	"time"
)

// Reasons for which an address may go to a second Service, or be refused although it is free,
// without a fault of the operator.
const (
	// ByRepair: the API server deleted a living Service's IPAddress, by name, in its repair or when
	// it deleted another Service that had the address before.
	ByRepair = "the API server has deleted the IPAddress of a living Service"
	// ByOutage: the IPAddress was missing, and no webhook answered that would have known.
	ByOutage = "no webhook answered"
	// ByAbsence: the IPAddress was lost while an API server was away, and with it what a replica of
	// the operator would have seen. Such a replica refuses no Service what it last saw covered: the
	// Service that had the address may be gone as well.
	ByAbsence = "the IPAddress was lost while an API server was away"
	// ByUnseenEnd: an API server went as a Service ended, and its replica saw the end of the IPAddress
	// alone. It refuses the address until the API server is back: it cannot tell this from an
	// IPAddress that was deleted while its Service lives.
	ByUnseenEnd = "a Service ended as an API server went"
)

// unseen is how much later than the log of an API server its watches may tell what was done.
const unseen = time.Second

// operator is who must not delete the IPAddress of a living Service, whatever is away.
const operator = "system:serviceaccount:clusterip-operator-system:clusterip-operator-manager"

// Absence is a time in which an API server was away, until what watches it has caught up.
type Absence struct{ From, To time.Time }

// Excuses are those of requests.
func Excuses(requests []Request, away ...Absence) Excuse {
	answered := byAnswer(requests)
	return func(o Operation, others []string) string {
		switch {
		case o.Kind == Refuse && endedUnseen(answered, o, away):
			return ByUnseenEnd
		case o.Kind != Take:
			return ""
		}
		var owner, deletedBy string // of the IPAddress
		var deleted time.Time
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
				deletedBy, deleted = r.User, r.Done
			case r.Answer.Parent != name(o.Service):
				owner, deletedBy = r.Answer.Parent, ""
			}
		}
		lost := deletedBy != "" && slices.ContainsFunc(others, func(s string) bool { return name(s) == owner })
		switch {
		case lost && deletedBy == "system:apiserver":
			return ByRepair
		case failedOpen:
			return ByOutage
		case lost && deletedBy != operator && slices.ContainsFunc(away, func(a Absence) bool { return !deleted.Before(a.From) && !o.Return.After(a.To) }):
			return ByAbsence
		default:
			return ""
		}
	}
}

// endedUnseen reports whether the last IPAddress at a refused address ended as an API server went,
// or while it was away, and the refusal came before it was back.
func endedUnseen(answered []Request, o Operation, away []Absence) bool {
	var ended time.Time
	for _, r := range answered {
		if r.Granted() && r.Answer != nil && r.Resource != "services" && r.Name == o.Address.String() && r.Done.Before(o.Return) {
			ended = time.Time{}
			if r.Answer.Ends {
				ended = r.Done
			}
		}
	}
	return !ended.IsZero() && slices.ContainsFunc(away, func(a Absence) bool { return ended.After(a.From.Add(-unseen)) && !o.Return.After(a.To) })
}

// byAnswer sorts requests.
func byAnswer(requests []Request) []Request {
	return slices.SortedStableFunc(slices.Values(requests), func(a, b Request) int { return a.Done.Compare(b.Done) })
}

// In returns those excused with a reason.
func (v Verdict) In(reason string) []Operation {
	return slices.DeleteFunc(slices.Clone(v.Excused), func(o Operation) bool { return !strings.HasPrefix(o.Excused, reason) })
}
