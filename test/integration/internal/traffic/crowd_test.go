package traffic

import (
	"strings"
	"testing"
	"time"
)

func TestCollisionsAreOursUnlessTheAPIServerHadAPart(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	w := &Crowd{
		stays: map[string]*stay{
			"ours":    {[]string{"10.96.0.7"}, at(1), time.Time{}},
			"foreign": {[]string{"10.96.0.8"}, at(1), time.Time{}},
			"gone":    {[]string{"10.96.0.7"}, at(1), at(2)},
			"prefix":  {[]string{"10.96.0.70"}, at(1), time.Time{}},
		},
		lost: []loss{
			{"a", "failed to allocate IP 10.96.0.7: provided IP is already allocated", at(3), at(4)},
			{"b", "failed to allocate IP 10.96.0.8: provided IP is already allocated", at(3), at(4)},
		},
	}
	event := func(name, chosen string) Event {
		return Event{Verb: "create", Resource: "services", Name: name, Chosen: chosen}
	}
	ours, others := w.Collisions([]Event{event("ours", ByWebhook), event("foreign", FailedOpen)})
	if len(ours) != 1 || !strings.HasPrefix(ours[0], "a: ") || strings.Contains(ours[0], "gone") || strings.Contains(ours[0], "prefix") {
		t.Errorf("ours: %q", ours)
	}
	if len(others) != 1 || !strings.HasPrefix(others[0], "b: ") {
		t.Errorf("others: %q", others)
	}
}
