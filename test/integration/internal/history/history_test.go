package history

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	apiServer = "system:apiserver"
	user      = "alice"
)

// at is a moment of a story, in seconds.
func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

// story builds a history about one address, and another one, of a family.
type story struct {
	a, b     netip.Addr
	requests []Request
	more     []Operation
	end      *Final
	version  uint64
	chosen   string
}

func split(service string) (namespace, name string) {
	namespace, name, _ = strings.Cut(service, "/")
	return namespace, name
}

// wrote is a write of a Service that was granted. Services were created in second 1 or later.
func (s *story) wrote(verb, service string, received, done int, addresses ...netip.Addr) *story {
	s.version++
	namespace, name := split(service)
	code := map[string]int{"create": 201}[verb]
	s.requests = append(s.requests, Request{Received: at(received), Done: at(done), Verb: verb, Resource: "services", Namespace: namespace, Name: name, User: user,
		Code: max(code, 200), Asked: addresses, Answer: &Object{UID: "uid-" + name, Name: service, Version: s.version, Created: at(1), Addresses: addresses, Ends: verb == "delete"}})
	return s
}

// begun is a write of a Service without an answer. The log has no name of one that is created.
func (s *story) begun(verb, service string, received int) *story {
	namespace, name := split(service)
	s.requests = append(s.requests, Request{Received: at(received), Verb: verb, Resource: "services", Namespace: namespace, Name: name, User: user})
	return s
}

// failed is a write that was refused for another reason.
func (s *story) failed(service string, received, done, code int, asked ...netip.Addr) *story {
	namespace, name := split(service)
	s.requests = append(s.requests, Request{Received: at(received), Done: at(done), Verb: "create", Resource: "services", Namespace: namespace, Name: name, User: user, Code: code,
		Message: "exceeded quota", Asked: asked})
	return s
}

// refused is a creation that was told that the address is allocated.
func (s *story) refused(service string, received, done int) *story {
	s.failed(service, received, done, 422, s.a)
	s.requests[len(s.requests)-1].Message = fmt.Sprintf("spec.clusterIPs: Invalid value: failed to allocate IP %s: provided IP is already allocated", s.a)
	return s
}

// put writes an IPAddress, drop deletes it.
func (s *story) put(uid, parent string, received, done int) *story {
	s.version++
	s.requests = append(s.requests, Request{Received: at(received), Done: at(done), Verb: "create", Resource: "ipaddresses", Name: s.a.String(), User: apiServer, Code: 201,
		Answer: &Object{UID: uid, Name: s.a.String(), Version: s.version, Created: at(received), Parent: parent, Beside: strings.HasPrefix(uid, "beside")}})
	return s
}

func (s *story) drop(uid string, received, done int) *story {
	s.requests = append(s.requests, Request{Received: at(received), Done: at(done), Verb: "delete", Resource: "ipaddresses", Name: s.a.String(), User: apiServer, Code: 200,
		Answer: &Object{UID: uid, Ends: true}})
	return s
}

// dropBy has a user delete an IPAddress.
func (s *story) dropBy(who, uid string, moment int) *story {
	s.drop(uid, moment, moment)
	s.requests[len(s.requests)-1].User = who
	return s
}

// keep keeps the address for Services, between moments.
func (s *story) keep(from, to int, services ...string) *story {
	s.more = append(s.more, Operation{Address: s.a, Kind: Keep, Services: services, Call: at(from), Return: at(from), Text: "a policy"},
		Operation{Address: s.a, Kind: Keep, Call: at(to), Return: at(to), Text: "a policy"})
	return s
}

// ends is the state in the end.
func (s *story) ends(moment int) *story {
	s.end = &Final{From: at(moment), To: at(moment)}
	return s
}

// has is a Service of the end, holds an IPAddress.
func (s *story) has(service string, addresses ...netip.Addr) *story {
	namespace, name := split(service)
	texts := []string{}
	for _, a := range addresses {
		texts = append(texts, a.String())
	}
	s.end.Services = append(s.end.Services, corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1000", CreationTimestamp: metav1.NewTime(at(1))},
		Spec:       corev1.ServiceSpec{ClusterIPs: texts},
	})
	return s
}

func (s *story) holds(uid, service string) *story {
	namespace, name := split(service)
	s.end.Addresses = append(s.end.Addresses, networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: s.a.String(), UID: types.UID(uid), ResourceVersion: "1000", CreationTimestamp: metav1.NewTime(at(1)),
			Labels: map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}},
	})
	return s
}

var stories = map[string]struct {
	tell func(*story)
	want string // part of the only fault, empty for a good history
}{
	"one Service after another": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).wrote("delete", "a/web", 3, 6).wrote("create", "a/api", 4, 5, s.a).ends(9).has("a/api", s.a)
	}, ""},
	"two Services at once": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).wrote("create", "a/api", 3, 4, s.a).wrote("delete", "a/web", 5, 6)
	}, "had by a/web#uid-web, and this cannot be:\n  00:00:03.000..00:00:04.000 take a/api#uid-api"},
	"two Services at once, for a moment that no look in the end shows": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).wrote("create", "a/api", 3, 4, s.a).wrote("delete", "a/web", 5, 6).wrote("delete", "a/api", 7, 8).ends(9)
	}, "take a/api#uid-api"},
	"a Service of the same name": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).wrote("delete", "a/web", 3, 4).wrote("create", "a/web", 5, 6, s.b)
		s.requests[2].Answer.UID = "uid-again"
	}, ""},
	"a change gives an address up": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a, s.b).wrote("update", "a/web", 3, 5, s.b).wrote("create", "a/api", 4, 5, s.a)
	}, ""},
	"a change keeps its address": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).wrote("update", "a/web", 3, 4, s.a).wrote("create", "a/api", 5, 6, s.a)
	}, "take a/api"},

	"refused while another Service has it": {func(s *story) { s.wrote("create", "a/web", 1, 2, s.a).refused("a/api", 3, 4) }, ""},
	"refused while another Service is about to get it": {func(s *story) {
		s.wrote("create", "a/web", 1, 4, s.a).refused("a/api", 2, 3)
	}, ""},
	"refused before another Service has it": {func(s *story) { s.refused("a/api", 1, 2).wrote("create", "a/web", 3, 4, s.a) }, "refuse a/api"},
	"refused after it was released": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).wrote("delete", "a/web", 3, 4).refused("a/api", 5, 6)
	}, "free, and this cannot be:\n  00:00:05.000..00:00:06.000 refuse a/api"},
	"refused for an IPAddress without a Service": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).put("one", "a/web", 1, 2).wrote("delete", "a/web", 3, 4).refused("a/api", 5, 6).drop("one", 7, 8).ends(9)
	}, ""},
	"refused after the IPAddress went, too": {func(s *story) {
		s.put("one", "a/web", 1, 2).wrote("create", "a/web", 1, 2, s.a).wrote("delete", "a/web", 3, 4).drop("one", 5, 6).refused("a/api", 7, 8)
	}, "refuse a/api"},
	"refused while it was drawn for a Service that did not come": {func(s *story) { s.failed("a/web", 1, 2, 403, s.a).refused("a/api", 11, 12) }, ""},
	"refused for longer than that":                               {func(s *story) { s.failed("a/web", 1, 2, 403, s.a).refused("a/api", 13, 14) }, "refuse a/api"},

	"a lost release, which leaves the IPAddress": {func(s *story) {
		s.put("one", "a/web", 1, 2).wrote("create", "a/web", 1, 2, s.a).wrote("delete", "a/web", 3, 4).ends(9).holds("one", "a/web")
	}, "free, an IPAddress names a/web, and this cannot be:\n  00:00:09.000..00:00:09.000 find"},
	"a lost release, which leaves the Service": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).wrote("delete", "a/web", 3, 4).ends(9).has("a/web", s.a)
	}, "free, and this cannot be:\n  00:00:09.000..00:00:09.000 find a/web#uid-web"},
	"an IPAddress that names another Service": {func(s *story) {
		s.put("one", "a/other", 1, 2).wrote("create", "a/web", 3, 4, s.a)
	}, "an IPAddress names a/other, and this cannot be:\n  00:00:03.000..00:00:04.000 take a/web"},
	"an additional address of the Service is no free one": {func(s *story) {
		s.put("beside-one", "a/web", 1, 2).wrote("create", "a/api", 3, 4, s.a)
	}, "take a/api"},

	"reserved, for the Service that comes":  {func(s *story) { s.keep(1, 9, "a/web").wrote("create", "a/web", 2, 3, s.a).refused("a/api", 4, 5) }, ""},
	"reserved, and refused to another":      {func(s *story) { s.keep(1, 9, "a/web").refused("a/api", 4, 5) }, ""},
	"reserved, and given to another":        {func(s *story) { s.keep(1, 9, "a/web").wrote("create", "a/api", 4, 5, s.a) }, "kept for a/web, and this cannot be"},
	"reserved, and refused to its own":      {func(s *story) { s.keep(1, 9, "a/web").refused("a/web", 4, 5) }, "refuse a/web"},
	"reserved no more, and given to others": {func(s *story) { s.keep(1, 2, "a/web").wrote("create", "a/api", 4, 5, s.a) }, ""},

	"exchanged": {func(s *story) {
		s.put("one", "a/web", 1, 2).wrote("create", "a/web", 1, 2, s.a).wrote("update", "a/web", 3, 4).refused("a/api", 5, 6).
			wrote("update", "a/web", 5, 6, s.b).drop("one", 7, 8).wrote("create", "a/api", 7, 9, s.a)
	}, ""},
	"exchanged with a Service that has it": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).wrote("create", "a/api", 1, 2, s.b).wrote("update", "a/web", 3, 4).wrote("update", "a/web", 5, 6, s.b)
	}, "had by a/api#uid-api, and this cannot be:\n  00:00:05.000..00:00:06.000 take a/web"},
	"handed over while the first has it still": {func(s *story) {
		s.keep(2, 9, "a/web", "a/web-former").wrote("create", "a/web", 1, 2, s.a).wrote("create", "a/web-former", 3, 4, s.a).wrote("update", "a/web", 5, 6, s.b)
	}, ""},
	"handed over, and a third takes it": {func(s *story) {
		s.keep(2, 9, "a/web", "a/web-former").wrote("create", "a/web", 1, 2, s.a).wrote("update", "a/web", 3, 4, s.b).wrote("create", "a/third", 5, 6, s.a)
	}, "kept for a/web a/web-former, and this cannot be"},

	"a deletion without an answer, and another takes it": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).begun("delete", "a/web", 3).wrote("create", "a/api", 5, 6, s.a)
	}, ""},
	"a deletion without an answer, and nothing came of it": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).begun("delete", "a/web", 3).refused("a/api", 5, 6).ends(9).has("a/web", s.a)
	}, ""},
	"a deletion without an answer, to be told from a Service that is there": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).begun("delete", "a/web", 3).wrote("create", "a/api", 5, 6, s.a).ends(9).has("a/web", s.a).has("a/api", s.a)
	}, "take a/api"},
	"a creation without an answer": {func(s *story) {
		s.begun("create", "a/", 1).refused("a/api", 3, 4).ends(9).has("a/web", s.a)
	}, ""},
	"a creation without an answer, of a Service that is deleted": {func(s *story) {
		s.begun("create", "a/", 1).refused("a/api", 3, 4).wrote("delete", "a/web", 5, 6, s.a).ends(9)
	}, ""},
	"a Service that no request has created": {func(s *story) { s.ends(9).has("a/web", s.a) }, "services a/web: created, between 00:00:01.000 and 00:00:09.000, without a request"},
	"a Service that no request has deleted": {func(s *story) { s.wrote("create", "a/web", 1, 2, s.a).ends(9) },
		"services a/web: deleted, between 00:00:01.000 and 00:00:09.000, without a request"},
	"what happens after the end": {func(s *story) {
		s.wrote("create", "a/web", 1, 2, s.a).wrote("delete", "a/web", 10, 11).put("one", "a/api", 12, 13).wrote("create", "a/api", 12, 13, s.a).
			ends(9).has("a/web", s.a)
	}, ""},
	"a creation that is answered after the end, and is there":   {func(s *story) { s.wrote("create", "a/web", 8, 10, s.a).ends(9).has("a/web", s.a) }, ""},
	"a creation that is answered after the end, and is not yet": {func(s *story) { s.wrote("create", "a/web", 8, 10, s.a).ends(9) }, ""},
	"an answer that may follow a write": {func(s *story) {
		s.failed("a/web", 1, 2, 504, s.a).refused("a/api", 3, 4).ends(9).has("a/web", s.a)
	}, ""},
}

func TestHistories(t *testing.T) {
	for family, addresses := range map[string][2]string{"IPv4": {"10.96.0.7", "10.96.0.8"}, "IPv6": {"fd00:10:96::7", "fd00:10:96::8"}} {
		for name, tc := range stories {
			t.Run(family+"/"+name, func(t *testing.T) {
				s := &story{a: netip.MustParseAddr(addresses[0]), b: netip.MustParseAddr(addresses[1])}
				tc.tell(s)
				v := Judge(s.requests, s.end, Windows{InFlight: 10 * time.Second}, s.more, nil)
				switch {
				case tc.want == "" && len(v.Faults) > 0:
					t.Errorf("found in a good history: %s", v)
				case tc.want != "" && (len(v.Faults) != 1 || !strings.Contains(v.Faults[0], tc.want)):
					t.Errorf("want %q, found %s", tc.want, v)
				}
			})
		}
	}
}

func TestWhatIsExcusedIsToldAndTheRestIsJudged(t *testing.T) {
	s := &story{a: netip.MustParseAddr("10.96.0.7")}
	s.wrote("create", "a/web", 1, 2, s.a).wrote("create", "a/api", 3, 4, s.a).wrote("delete", "a/web", 5, 6).wrote("create", "a/third", 7, 8, s.a)
	v := Judge(s.requests, nil, Windows{}, nil, func(o Operation, _ []string) string {
		return map[bool]string{true: "an outage"}[o.Service == "a/api#uid-api"]
	})
	if len(v.Excused) != 1 || v.Excused[0].Service != "a/api#uid-api" {
		t.Errorf("excused %v", v.Excused)
	}
	if len(v.Faults) != 1 || !strings.Contains(v.Faults[0], "had by a/api#uid-api, and this cannot be:\n  00:00:07.000..00:00:08.000 take a/third") {
		t.Errorf("found %s", v)
	}
}

func TestAnIPAddressWithoutAServiceIsBelievedForATime(t *testing.T) {
	s := &story{a: netip.MustParseAddr("fd00:10:96::7")}
	s.put("one", "a/web", 1, 2).wrote("create", "a/web", 1, 2, s.a).wrote("delete", "a/web", 3, 4).failed("a/api", 5, 6, 409, s.a).ends(9).holds("one", "a/web")
	for i := range 2 * shown { // what the reader does not look for
		s.failed("a/late", 20+i, 21+i, 500, s.a)
	}
	for believed, want := range map[time.Duration]int{5 * time.Second: 1, 6 * time.Second: 0} {
		v := Judge(s.requests, s.end, Windows{Believed: believed}, nil, nil)
		if len(v.Faults) != want {
			t.Errorf("believed for %s: %s", believed, v)
		}
		if want > 0 && !strings.Contains(v.Faults[0], "asked: 00:00:05.000..00:00:06.000 create service a/api by alice: 409 exceeded quota") {
			t.Errorf("the requests about the address are not told: %s", v)
		}
	}
}

func TestARefusalMayLagBehindAWrite(t *testing.T) {
	s := &story{a: netip.MustParseAddr("fd00:10:96::7")}
	s.put("one", "a/web", 1, 2).wrote("create", "a/web", 1, 2, s.a).wrote("delete", "a/web", 3, 4).drop("one", 3, 4).refused("a/api", 7, 8)
	for lag, want := range map[time.Duration]int{0: 1, 2 * time.Second: 1, 4 * time.Second: 0} {
		if v := Judge(s.requests, nil, Windows{Lag: lag}, nil, nil); len(v.Faults) != want {
			t.Errorf("with a lag of %s: %s", lag, v)
		}
	}
}

func TestCauseOfADuplicate(t *testing.T) {
	for name, tc := range map[string]struct {
		tell func(*story)
		want string
		away []Absence
	}{
		"the API server took it from a living Service": {func(s *story) { s.dropBy(apiServer, "one", 5) }, ByRepair, nil},
		"a user did, and the webhook was asked":        {func(s *story) { s.dropBy(user, "one", 5) }, "", nil},
		"a user did, and the webhook was away": {func(s *story) {
			s.dropBy(user, "one", 5)
			s.chosen = FailedOpen
		}, ByOutage, nil},
		"the operator did": {func(s *story) { s.dropBy(operator, "one", 5) }, "", nil},
		"the API server took what named another": {func(s *story) {
			s.dropBy(user, "one", 4).put("two", "a/third", 4, 5).dropBy(apiServer, "two", 6)
		}, "", nil},
		"a user did while an API server was away":       {func(s *story) { s.dropBy(user, "one", 5) }, ByAbsence, []Absence{{at(1), at(4)}, {at(5), at(9)}}},
		"a user did before an API server was away":      {func(s *story) { s.dropBy(user, "one", 5) }, "", []Absence{{at(6), at(20)}}},
		"a user did, and the API server came again":     {func(s *story) { s.dropBy(user, "one", 5) }, "", []Absence{{at(4), at(8)}}},
		"the operator did while an API server was away": {func(s *story) { s.dropBy(operator, "one", 5) }, "", []Absence{{at(5), at(9)}}},
		"an API server was away, but nothing was lost":  {func(*story) {}, "", []Absence{{at(0), at(20)}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{a: netip.MustParseAddr("fd00:10:96::7")}
			s.put("one", "a/web", 1, 2).wrote("create", "a/web", 1, 3, s.a)
			tc.tell(s)
			s.put("again", "a/api", 8, 8).wrote("create", "a/api", 7, 9, s.a)
			s.requests[len(s.requests)-1].Chosen = s.chosen
			v := Judge(s.requests, nil, Windows{}, nil, Excuses(s.requests, tc.away...))
			if tc.want == "" && len(v.Faults) != 1 || tc.want != "" && (len(v.Faults) > 0 || len(v.In(tc.want)) != 1) {
				t.Errorf("want %q, found %s, excused %v", tc.want, v, v.Excused)
			}
		})
	}
}

// The end of a Service and that of its IPAddress come on two watches. An API server may go between.
func TestARefusalWhileTheEndOfTheServiceIsUnseen(t *testing.T) {
	for name, tc := range map[string]struct {
		tell func(*story)
		want string
		away []Absence
	}{
		"the API server went then":                     {func(*story) {}, ByUnseenEnd, []Absence{{at(6), at(20)}}},
		"it had gone before":                           {func(*story) {}, ByUnseenEnd, []Absence{{at(4), at(20)}}},
		"it went later":                                {func(*story) {}, "", []Absence{{at(8), at(20)}}},
		"it is back":                                   {func(*story) {}, "", []Absence{{at(6), at(9)}}},
		"no API server was away":                       {func(*story) {}, "", nil},
		"another Service has come and gone since then": {func(s *story) { s.put("two", "a/db", 7, 7).drop("two", 8, 8) }, "", []Absence{{at(2), at(4)}, {at(10), at(20)}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{a: netip.MustParseAddr("10.96.0.7")}
			s.put("one", "a/web", 1, 2).wrote("create", "a/web", 1, 3, s.a).wrote("delete", "a/web", 4, 5).drop("one", 6, 6)
			tc.tell(s)
			s.refused("a/api", 11, 12)
			v := Judge(s.requests, nil, Windows{}, nil, Excuses(s.requests, tc.away...))
			if tc.want == "" && len(v.Faults) != 1 || tc.want != "" && (len(v.Faults) > 0 || len(v.In(tc.want)) != 1) {
				t.Errorf("want %q, found %s, excused %v", tc.want, v, v.Excused)
			}
		})
	}
}
