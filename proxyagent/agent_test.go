package proxyagent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

var errKernel = errors.New("the kernel is out of sorts")

func TestNothingIsProgrammedBeforeTheSourceIsReady(t *testing.T) {
	runAgent(t, Options{}, func(s *fixture) {
		s.source.put(web("web", "10.96.0.1", "10.244.0.1"))
		s.run(false)
		s.until(time.Minute)
		s.expect("")
		close(s.source.ready)
		s.expect("sync updated", "1m0s IPv4 sync globals +web", "1m0s IPv4 updated")
	})
}

// TestPace has when syncs begin, and what is in them: the first change of a quiet time at once,
// later ones together, a pause after the end of the last sync.
func TestPace(t *testing.T) {
	runAgent(t, Options{MinSyncPeriod: 2 * time.Second, ProbePeriod: time.Hour}, func(s *fixture) {
		s.backends[model.IPv4].took = 500 * time.Millisecond
		s.run(true)
		s.until(time.Minute)
		s.expect("sync", "0s IPv4 sync globals")

		s.source.put(web("first", "10.96.0.1", "10.244.0.1"))
		s.expect("sync", "1m0s IPv4 sync +first")
		for i := range 10 { // while the sync runs, and after
			time.Sleep(200 * time.Millisecond)
			s.source.put(web(fmt.Sprintf("more%d", i%3), fmt.Sprintf("10.96.0.%d", 2+i%3), "10.244.0.1"))
		}
		s.until(time.Minute + 2499*time.Millisecond)
		s.expect("sync updated", "1m0.5s IPv4 updated")
		s.until(2 * time.Minute)
		s.expect("sync updated", "1m2.5s IPv4 sync +more0 +more1 +more2", "1m3s IPv4 updated")
	})
}

// TestChangesInTheBackOffWaitTogether and are handed over in their order.
func TestChangesInTheBackOffWaitTogether(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour}, func(s *fixture) {
		s.backends[model.IPv4].fail = []error{errKernel, errKernel, errKernel, errKernel}
		s.run(true)
		s.until(8 * time.Second) // the next try is at 15s
		s.take()
		s.source.put(web("a", "10.96.0.1", "10.244.0.1"))
		s.until(10 * time.Second)
		s.source.put(web("b", "10.96.0.2", "10.244.0.1"))
		s.until(20 * time.Second)
		s.expect("sync flows", "15s IPv4 sync +a; +b", "15s IPv4 flows start with 2 ports, before 2", "15s IPv4 flows searched")
	})
}

// TestTriggersAreBounded while nothing can be programmed.
func TestTriggersAreBounded(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour}, func(s *fixture) {
		s.backends[model.IPv4].fail = []error{errKernel}
		for range 2 {
			s.source.change(func(c *model.Changes) { c.Triggers = slices.Repeat([]time.Time{s.start}, maxTriggers-1) })
			if s.end == nil {
				s.run(true)
			}
		}
		s.until(5 * time.Second)
		lines := s.take("programmed")
		if len(lines) == 0 || strings.Count(lines[0], "0s") != maxTriggers {
			t.Errorf("%d moments were remembered, want %d", strings.Count(strings.Join(lines, ""), "0s"), maxTriggers)
		}
	})
}

func TestWakingForNothingProgramsNothing(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour}, func(s *fixture) {
		s.run(true)
		s.until(time.Minute)
		s.take()
		s.source.change(func(*model.Changes) {})
		s.expect("sync flows updated", "1m0s IPv4 updated")
	})
}

// TestFailedSyncsAreTriedAgain ever later, without anything new to program, and lose no change.
func TestFailedSyncsAreTriedAgain(t *testing.T) {
	runAgent(t, Options{}, func(s *fixture) {
		b := s.backends[model.IPv4]
		for range 7 {
			b.fail = append(b.fail, errKernel)
		}
		s.source.put(web("web", "10.96.0.1", "10.244.0.1"))
		s.run(true)
		s.until(2 * time.Minute)
		s.expect("sync updated",
			"0s IPv4 sync globals +web", "1s IPv4 sync ", "3s IPv4 sync ", "7s IPv4 sync ", "15s IPv4 sync ", "31s IPv4 sync ", "1m1s IPv4 sync ",
			"1m31s IPv4 sync ", "1m31s IPv4 updated")

		b.tell(func(b *fakeBackend) { b.fail = []error{errKernel} })
		s.source.put(web("late", "10.96.0.2", "10.244.0.1"))
		s.until(3 * time.Minute)
		s.expect("sync restorefailed updated",
			"2m0s IPv4 sync +late", "2m0s IPv4 restorefailed", "2m1s IPv4 sync ", "2m1s IPv4 updated")
	})
}

// TestSuccessIsToldOnlyForTheFamilyThatHasIt has one family fail; the other one does not wait.
func TestSuccessIsToldOnlyForTheFamilyThatHasIt(t *testing.T) {
	runAgent(t, Options{Families: both(), ProbePeriod: time.Hour}, func(s *fixture) {
		s.backends[model.IPv6].fail = []error{errKernel, errKernel}
		s.source.change(func(c *model.Changes) {
			changesOf(c)[named("web")] = web("web", "10.96.0.1", "10.244.0.1")
			c.Triggers, c.ServiceEvents, c.EndpointEvents = []time.Time{s.start.Add(-time.Second)}, 2, 5
		})
		s.run(true)
		s.until(900 * time.Millisecond)
		s.expect("updated programmed changed changesdone", "0s changed 2 5", "0s IPv4 programmed [-1s] at 0s", "0s IPv4 updated")

		s.source.change(func(c *model.Changes) {
			changesOf(c)[named("web")] = web("web", "10.96.0.1", "10.244.0.2")
			c.Triggers, c.ServiceEvents, c.EndpointEvents = []time.Time{s.start.Add(900 * time.Millisecond)}, 0, 1
		})
		s.until(time.Second)
		s.expect("updated programmed changed changesdone", "1s changed 0 1", "1s IPv4 programmed [900ms] at 1s", "1s IPv4 updated")
		s.until(20 * time.Second)
		lines := s.take("programmed", "changesdone")
		for _, want := range []string{"3s IPv6 programmed [-1s 900ms] at 3s", "3s changesdone 2 6"} {
			if !slices.Contains(lines, want) {
				t.Errorf("%q is missing in\n%s", want, strings.Join(lines, "\n"))
			}
		}
		s.source.change(func(c *model.Changes) { c.ServiceEvents = 4 })
		s.expect("changesdone", "20s changesdone 4 0")
	})
}

// TestAFamilyThatCannotBeServed makes the agent unhealthy and is tried again; an optional one does
// so only once the cluster has a Service of it.
func TestAFamilyThatCannotBeServed(t *testing.T) {
	for name, optional := range map[string]bool{"a family": false, "an optional family": true} {
		t.Run(name, func(t *testing.T) {
			families := both()
			families[1].Optional = optional
			runAgent(t, Options{Families: families, ProbePeriod: time.Hour}, func(s *fixture) {
				s.backends[model.IPv6].broken = errKernel
				s.source.change(func(c *model.Changes) {
					changesOf(c)[named("web")], c.ServiceEvents = web("web", "10.96.0.1", "10.244.0.1"), 1
				})
				s.run(true)
				s.until(4 * time.Second)
				want := []string{"0s IPv4 updated", "0s IPv6 restorefailed", "1s IPv6 restorefailed", "3s IPv6 restorefailed"}
				if optional {
					want = []string{"0s IPv4 updated", "0s IPv6 updated", "0s changesdone 1 0", "1s IPv6 updated", "3s IPv6 updated"}
				}
				// IPv4 has a second, empty round if it took the change before it was woken for it.
				got := slices.DeleteFunc(s.take("updated", "restorefailed", "changesdone"), func(l string) bool {
					return l == "1s IPv4 updated" || strings.Contains(l, "changesdone 0 0")
				})
				slices.Sort(got) // the families run side by side
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				s.source.put(web("six", "fd00::1", "fd01::1"))
				s.until(8 * time.Second)
				s.expect("restorefailed", "7s IPv6 restorefailed")
				s.backends[model.IPv6].tell(func(b *fakeBackend) { b.broken = nil })
				s.until(16 * time.Second)
				s.expect("sync updated", "15s IPv6 sync ", "15s IPv6 updated")
			})
		})
	}
}

// TestAStuckFamilyDoesNotStopTheOther has a sync of a minute; the next has all that came, once.
func TestAStuckFamilyDoesNotStopTheOther(t *testing.T) {
	runAgent(t, Options{Families: both(), ProbePeriod: time.Hour}, func(s *fixture) {
		s.backends[model.IPv6].took = time.Minute
		s.run(true)
		for i := range 3 {
			s.until(time.Duration(10*(i+1)) * time.Second)
			v4, v6 := web("four", "10.96.0.1", fmt.Sprintf("10.244.0.%d", i)), web("six", "fd00::1", fmt.Sprintf("fd01::%d", i+1))
			v4.HealthCheckNodePort, v4.Endpoints[0].Node = 32000+uint16(i), "here"
			s.source.put(v4, v6)
		}
		s.until(3 * time.Minute)
		lines := s.take("sync", "updated", "four")
		slices.Sort(lines) // of two families at one moment
		if want := []string{
			"0s IPv4 sync globals", "0s IPv4 updated", "0s IPv6 sync globals",
			"10s IPv4 sync +four", "10s IPv4 updated", "10s healthcheck four port 32000 local 1",
			"1m0s IPv6 updated", "1m1s IPv6 sync +six",
			"20s IPv4 sync +four", "20s IPv4 updated", "20s healthcheck four port 32001 local 1",
			"2m1s IPv6 updated",
			"30s IPv4 sync +four", "30s IPv4 updated", "30s healthcheck four port 32002 local 1",
		}; !slices.Equal(lines, want) {
			t.Errorf("got\n  %s\nwant\n  %s", strings.Join(lines, "\n  "), strings.Join(want, "\n  "))
		}
	})
}

// TestWhatASyncTells lists all that a family reports of a success and of a failure.
func TestWhatASyncTells(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour}, func(s *fixture) {
		s.backends[model.IPv4].fail, s.backends[model.IPv4].took = []error{errKernel}, time.Second
		s.run(true)
		s.until(time.Second)
		s.expect("IPv4", "0s IPv4 sync globals", "1s IPv4 syncdone full true took 1s end 1s err the kernel is out of sorts", "1s IPv4 queued",
			"1s IPv4 restorefailed")
		s.until(3 * time.Second)
		lines := s.take("IPv4")
		slices.Sort(lines) // the tables come in no order
		want := []string{
			"2s IPv4 sync ", "3s IPv4 conntrackdone 0s 3", "3s IPv4 flows searched", "3s IPv4 flows start with 0 ports, before 2", "3s IPv4 nolocal 0 0", "3s IPv4 programmed [] at 3s",
			"3s IPv4 rules map[filter:5 nat:7] map[nat:3]", "3s IPv4 syncdone full true took 1s end 3s err <nil>", "3s IPv4 updated",
		}
		if !slices.Equal(lines, want) {
			t.Errorf("got\n  %s\nwant\n  %s", strings.Join(lines, "\n  "), strings.Join(want, "\n  "))
		}
	})
}

// TestFlows looks at all ports at first, at changed ones later, and at all again after a sync
// failed.
func TestFlows(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour}, func(s *fixture) {
		at := func(seconds int, name string) {
			s.until(time.Duration(seconds) * time.Second)
			s.source.put(web(name, fmt.Sprintf("10.96.0.%d", seconds), "10.244.0.1"))
		}
		s.run(true)
		s.expect("flows conntrackdone", "0s IPv4 flows start with 0 ports, before 2", "0s IPv4 conntrackdone 0s 3", "0s IPv4 flows searched")
		at(10, "a")
		s.expect("flows", "10s IPv4 flows reconcile bit 14 +a", "10s IPv4 flows searched")

		s.backends[model.IPv4].tell(func(b *fakeBackend) { b.fail = []error{errKernel} })
		at(20, "b") // not in the kernel: flows may still go where they go
		s.expect("flows")
		s.until(21 * time.Second)
		s.expect("flows", "21s IPv4 flows start with 2 ports, before 2", "21s IPv4 flows searched")

		s.flows[model.IPv4].mu.Lock()
		s.flows[model.IPv4].fail = []error{errKernel}
		s.flows[model.IPv4].mu.Unlock()
		at(30, "c") // the rules are right all the same
		s.until(31 * time.Second)
		s.expect("flows updated", "30s IPv4 flows reconcile bit 14 +c", "30s IPv4 updated", "30s IPv4 flows searched")
		s.until(45 * time.Second) // tried again for itself
		s.expect("flows sync", "40s IPv4 flows searched")
		at(50, "d")
		s.expect("flows", "50s IPv4 flows reconcile bit 14 +d", "50s IPv4 flows searched")
	})
}

// TestASearchForFlowsStopsNothing although it takes a minute: there is one at a time, and the next
// one looks for what came meanwhile.
func TestASearchForFlowsStopsNothing(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour}, func(s *fixture) {
		s.flows[model.IPv4].took = time.Minute
		s.run(true)
		s.until(10 * time.Second)
		s.source.put(web("a", "10.96.0.1", "10.244.0.1"))
		s.until(90 * time.Second)
		s.expect("flows sync conntrackdone",
			"0s IPv4 sync globals", "0s IPv4 flows start with 0 ports, before 2", "0s IPv4 flows searched",
			"10s IPv4 sync +a", "10s IPv4 flows reconcile bit 14 +a",
			"1m0s IPv4 conntrackdone 1m0s 3", "1m0s IPv4 flows searched")
	})
}

// TestDriftIsLookedForAndTold, also when looking fails: health must say that the node serves wrong.
func TestDriftIsLookedForAndTold(t *testing.T) {
	runAgent(t, Options{ProbePeriod: 3 * time.Second}, func(s *fixture) {
		b := s.backends[model.IPv4]
		b.drift = [][]string{nil, {"chain CIPA-SERVICES", "set CIPA-4-VIP", "chain CIPA-VIPS", "jump from INPUT"}}
		s.run(true)
		s.until(9 * time.Second)
		s.expect("check repaired sync", "0s IPv4 sync globals", "3s IPv4 check", "6s IPv4 check", "6s IPv4 repaired chain",
			"6s IPv4 repaired set", "6s IPv4 repaired chain", "6s IPv4 repaired jump", "9s IPv4 check")

		b.tell(func(b *fakeBackend) { b.blind = []error{errKernel}; b.fail = []error{errKernel, errKernel} })
		s.until(20 * time.Second) // no check while syncs fail: a sync compares everything itself
		s.expect("check queued sync updated", "12s IPv4 check", "12s IPv4 queued", "13s IPv4 sync ", "13s IPv4 queued",
			"15s IPv4 sync ", "15s IPv4 queued", "19s IPv4 sync ", "19s IPv4 updated")
		s.until(22 * time.Second)
		s.expect("check", "21s IPv4 check")
	})
}

// TestDisputesAreToldOnceWhenTheyLast has two Services claim an address, for a moment and for long.
func TestDisputesAreToldOnceWhenTheyLast(t *testing.T) {
	runAgent(t, Options{}, func(s *fixture) {
		older, younger := web("older", "10.96.0.1", "10.244.0.1"), web("younger", "10.96.0.1", "10.244.0.2")
		younger.Created = older.Created.Add(time.Hour)
		claim := func(at time.Duration) { s.until(at); s.source.put(younger) }
		leave := func(at time.Duration) { s.until(at); s.source.remove(younger.Name) }
		s.source.put(older)
		s.run(true)

		claim(9500 * time.Millisecond)
		leave(13500 * time.Millisecond) // it lasted four seconds
		s.until(30 * time.Second)
		s.expect("event")

		claim(29500*time.Millisecond + time.Second)
		s.until(35900 * time.Millisecond)
		if lines := s.take("event", "disputed"); slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "event") }) || len(lines) != 5 {
			t.Errorf("before it has lasted for five seconds: %q", lines)
		}
		s.until(2 * time.Minute)
		s.expect("event", "36s event 10.96.0.1 younger ClaimedByOlderService")

		leave(121500 * time.Millisecond)
		claim(131500 * time.Millisecond)
		s.until(3 * time.Minute)
		s.expect("event", "2m17s event 10.96.0.1 younger ClaimedByOlderService")
	})
}

// TestChangesDoNotWaitForALook for drift, of which there is one at a time.
func TestChangesDoNotWaitForALook(t *testing.T) {
	runAgent(t, Options{}, func(s *fixture) {
		s.backends[model.IPv4].tell(func(b *fakeBackend) { b.pending, b.drift = 9500*time.Millisecond, [][]string{{"chain A"}} })
		s.run(true)
		s.until(5500 * time.Millisecond)
		s.source.put(web("late", "10.96.0.1", "10.244.0.1"))
		s.until(11500 * time.Millisecond)
		s.expect("sync check repaired", "0s IPv4 sync globals", "1s IPv4 check", "5.5s IPv4 sync +late", "10.5s IPv4 repaired chain", "11s IPv4 check")
	})
}

// TestDegradationsAreToldOnce as long as they last, and of many only some.
func TestDegradationsAreToldOnce(t *testing.T) {
	refused := func(n int) (all []model.Degradation) {
		for i := range n {
			port := model.PortName{Service: named(fmt.Sprintf("web-%02d", i)), Port: "http", Protocol: model.TCP}
			all = append(all, model.Degradation{Port: port, Reason: model.RulesRefused})
		}
		return all
	}
	runAgent(t, Options{}, func(s *fixture) {
		without := func(n int) {
			s.backends[model.IPv4].tell(func(b *fakeBackend) { b.without = refused(n) })
		}
		s.run(true)
		without(1)
		s.until(1500 * time.Millisecond)
		s.expect("event", "1s event IPv4 default/web-00:http/TCP RulesRefused")
		s.until(9500 * time.Millisecond)
		s.expect("event")
		without(0)
		s.until(19500 * time.Millisecond)
		s.take()
		without(60)
		s.until(30500 * time.Millisecond)
		lines := s.take("event", "degraded")
		told := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.Contains(l, " event ") })
		if len(told) != maxOfNamespace || !slices.Contains(lines, "30s IPv4 degraded 60") {
			t.Errorf("%d of 60 were told, want %d; the last line is %q", len(told), maxOfNamespace, lines[len(lines)-1])
		}
		another := model.PortName{Service: model.ServiceName{Namespace: "zoo", Name: "late"}, Port: "http", Protocol: model.TCP}
		s.backends[model.IPv4].tell(func(b *fakeBackend) {
			b.without = append(b.without, model.Degradation{Port: another, Reason: model.RulesRefused})
		})
		s.until(60500 * time.Millisecond)
		if lines := s.take("event"); len(lines) != 1 || !strings.Contains(lines[0], "zoo/late") {
			t.Errorf("beside the many of one namespace, that of another one is told as %q", lines)
		}
	})
}

// TestAnnotationsThatCannotBeReadAreTold once, and hide nothing that is worse.
func TestAnnotationsThatCannotBeReadAreTold(t *testing.T) {
	runAgent(t, Options{Families: both()}, func(s *fixture) {
		for i := range maxOfNamespace {
			bad := web(fmt.Sprintf("bad-%02d", i), fmt.Sprintf("10.96.0.%d", i+1), "10.244.0.1")
			bad.Balancing = &model.Balancing{Ignored: []model.DegradationReason{model.SchedulerInvalid}}
			s.source.put(bad)
		}
		s.backends[model.IPv4].without = []model.Degradation{
			{Port: model.PortName{Service: named("asks"), Protocol: model.TCP}, Reason: model.SchedulerUnavailable},
			{Port: model.PortName{Service: named("worse"), Protocol: model.TCP}, Reason: model.RulesRefused},
		}
		s.run(true)
		s.until(5 * time.Second)
		lines := s.take("event")
		if len(lines) != maxOfNamespace || lines[0] != "1s event IPv4 default/worse/TCP RulesRefused" || lines[1] != "1s event IPv4 default/asks/TCP SchedulerUnavailable" || lines[2] != "1s event IPv4 default/bad-00:http/TCP SchedulerInvalid" {
			t.Errorf("%d events, the first are %q", len(lines), lines[:min(len(lines), 3)])
		}
	})
}

// TestManyDisputesAreToldInPart bounds what a tenant who creates Services has every node write.
func TestManyDisputesAreToldInPart(t *testing.T) {
	runAgent(t, Options{}, func(s *fixture) {
		claim := func(network int) {
			for i := range 60 {
				ip := fmt.Sprintf("10.96.%d.%d", network, i)
				older, younger := web(fmt.Sprintf("older-%d-%d", network, i), ip, "10.244.0.1"), web(fmt.Sprintf("younger-%d-%d", network, i), ip, "10.244.0.2")
				younger.Created = older.Created.Add(time.Hour)
				s.source.put(older, younger)
			}
		}
		claim(9)
		s.run(true)
		s.until(time.Minute)
		if reported := len(s.take("event")); reported != maxOfNamespace {
			t.Errorf("of 60 disputes %d were reported, want %d", reported, maxOfNamespace)
		}
		other, late := web("other", "10.96.1.1", "10.244.0.1"), web("late", "10.96.1.1", "10.244.0.2")
		other.Name.Namespace, late.Name.Namespace = "zoo", "zoo"
		late.Created = other.Created.Add(time.Hour)
		s.source.put(other, late)
		s.until(90 * time.Second)
		if lines := s.take("event"); len(lines) != 1 || !strings.Contains(lines[0], "10.96.1.1") {
			t.Errorf("beside the many of one namespace, that of another one is told as %q", lines)
		}
		claim(8) // before the others in the order of addresses
		s.until(2 * time.Minute)
		if reported := len(s.take("event")); reported > 0 {
			t.Errorf("of 60 more %d were reported", reported)
		}
	})
}

// TestAQuotaIsForAllAndForEachNamespace of those that would have more.
func TestAQuotaIsForAllAndForEachNamespace(t *testing.T) {
	take, of := quota(), map[string]int{}
	for range 2 * maxOfNamespace {
		for i := range 2 * maxEvents / maxOfNamespace {
			if namespace := fmt.Sprint("n", i); take(namespace) {
				of[namespace]++
			}
		}
	}
	all := 0
	for namespace, n := range of {
		all += n
		if n > maxOfNamespace {
			t.Errorf("%s has %d events", namespace, n)
		}
	}
	if all != maxEvents {
		t.Errorf("there are %d events, want %d", all, maxEvents)
	}
}

func TestHealthChecksFollowServices(t *testing.T) {
	runAgent(t, Options{Families: both(), ProbePeriod: time.Hour}, func(s *fixture) {
		lb := web("lb", "10.96.0.1", "10.244.0.1")
		lb.Endpoints = append(lb.Endpoints, at("here", "10.244.1.1"), at("here", "10.244.1.2"))
		lb.HealthCheckNodePort, lb.ExternalLocal = 32000, true
		s.source.put(lb)
		s.run(true)
		s.expect("healthcheck", "0s healthcheck lb port 32000 local 2")

		s.until(10 * time.Second)
		plain := *lb
		plain.HealthCheckNodePort = 0
		s.source.put(&plain)
		s.expect("healthcheck", "10s healthcheck lb port 0 local 0")

		s.until(20 * time.Second)
		s.source.put(lb)
		s.expect("healthcheck", "20s healthcheck lb port 32000 local 2")
		s.until(30 * time.Second)
		s.source.remove(lb.Name)
		s.expect("healthcheck", "30s healthcheck lb port 0 local 0")
	})
}

// TestLoadBalancersComeAfterTheRules and turn away before.
func TestLoadBalancersComeAfterTheRules(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour}, func(s *fixture) {
		b := s.backends[model.IPv4]
		b.took, b.fail = time.Second, []error{errKernel}
		lb := web("lb", "10.96.0.1", "10.244.0.1")
		lb.Endpoints = append(lb.Endpoints, at("here", "10.244.1.1"))
		lb.HealthCheckNodePort, lb.ExternalLocal = 32000, true
		s.source.put(lb)
		s.run(true)
		s.until(10 * time.Second)
		s.expect("healthcheck", "3s healthcheck lb port 32000 local 1")

		gone := *lb
		gone.Endpoints = gone.Endpoints[:1]
		s.source.put(&gone)
		synctest.Wait()
		s.expect("healthcheck", "10s healthcheck lb port 32000 local 0")
		s.until(20 * time.Second)
		s.expect("healthcheck")

		b.tell(func(b *fakeBackend) { b.fail = []error{errKernel} })
		s.source.put(lb) // comes, and goes before the rules are there
		s.until(21500 * time.Millisecond)
		s.source.put(&gone)
		s.until(30 * time.Second)
		for _, line := range s.take("healthcheck") {
			if !strings.HasSuffix(line, "local 0") {
				t.Errorf("after the endpoint went: %s", line)
			}
		}
	})
}

// TestHealthKnowsWhatWaits also while the loop waits for the kernel.
func TestHealthKnowsWhatWaits(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour, Families: both()}, func(s *fixture) {
		s.run(true)
		s.until(time.Minute)
		s.take()
		for _, b := range s.backends {
			b.tell(func(b *fakeBackend) { b.took = time.Hour })
		}
		s.source.put(web("web", "10.96.0.1", "10.244.0.1"), web("six", "fd00::1", "fd01::1"))
		s.until(2 * time.Minute)
		s.take()
		s.source.put(web("more", "10.96.0.2", "10.244.0.1"))
		s.expect("queued updated", "2m0s IPv4 queued", "2m0s IPv6 queued")
	})
}

// TestWhatWaitsStaysQueued when it came during another sync: the last word is that something waits.
func TestWhatWaitsStaysQueued(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour, MinSyncPeriod: time.Minute}, func(s *fixture) {
		s.backends[model.IPv4].took = time.Second
		s.run(true)
		s.until(500 * time.Millisecond)
		s.source.put(web("web", "10.96.0.1", "10.244.0.1"))
		s.until(30 * time.Second)
		if lines := s.take("queued", "updated"); len(lines) == 0 || !strings.HasSuffix(lines[len(lines)-1], "queued") {
			t.Errorf("got %q", lines)
		}
	})
}

func TestANodeThatLeaves(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour}, func(s *fixture) {
		s.run(true)
		for i, leaving := range []bool{true, false} {
			s.until(time.Duration(10*(i+1)) * time.Second)
			s.source.change(func(c *model.Changes) { c.Node = &model.Node{Name: "here", Leaving: leaving} })
		}
		s.until(30 * time.Second)
		s.source.put(web("web", "10.96.0.1", "10.244.0.1"))
		s.expect("leaving", "0s leaving false", "10s leaving true", "20s leaving false")
	})
}

// TestAddressesOfInterfaces are read every ten seconds, and programmed only when they changed.
func TestAddressesOfInterfaces(t *testing.T) {
	o := Options{Families: []Family{{Settings: settings(model.IPv4)}}}
	o.Families[0].Settings.NodePortCIDRs = []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")}
	one, two := netip.MustParseAddr("192.168.0.1"), netip.MustParseAddr("192.168.0.2")
	answers := [][]netip.Addr{{one, two}, {two, one}, nil, {two, one}, {two}, {two}}
	var read []string
	start := time.Time{}
	o.LocalAddrs = func() ([]netip.Addr, error) {
		read = append(read, time.Since(start).String())
		answer := answers[min(len(read), len(answers))-1]
		if answer == nil {
			return nil, errKernel
		}
		return slices.Clone(answer), nil
	}
	runAgent(t, o, func(s *fixture) {
		start = s.start
		s.run(true)
		s.until(35 * time.Second)
		s.source.put(web("web", "10.96.0.1", "10.244.0.1")) // no reason to read them
		s.until(69 * time.Second)
		s.expect("sync", "0s IPv4 sync globals", "35s IPv4 sync +web", "40s IPv4 sync globals")
		if want := []string{"0s", "10s", "20s", "30s", "40s", "50s", "1m0s"}; !slices.Equal(read, want) {
			t.Errorf("read at %v, want %v", read, want)
		}
	})
}

// TestAddressesReachBothFamilies: one reads them, and no change of the cluster wakes the other.
func TestAddressesReachBothFamilies(t *testing.T) {
	o := Options{Families: both()}
	for i, cidr := range []string{"192.168.0.0/16", "fd00::/16"} {
		o.Families[i].Settings.NodePortCIDRs = []netip.Prefix{netip.MustParsePrefix(cidr)}
	}
	start := time.Time{}
	o.LocalAddrs = func() ([]netip.Addr, error) {
		all := []netip.Addr{netip.MustParseAddr("192.168.0.1"), netip.MustParseAddr("fd00::1"), netip.MustParseAddr("192.168.0.2"), netip.MustParseAddr("fd00::2")}
		if time.Since(start) < 15*time.Second {
			return all[:2], nil
		}
		return all, nil
	}
	runAgent(t, o, func(s *fixture) {
		start = s.start
		s.run(true)
		s.until(15 * time.Second)
		s.take()
		s.until(40 * time.Second)
		lines := s.take("sync")
		slices.Sort(lines)
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "IPv4 sync globals") || !strings.HasSuffix(lines[1], "IPv6 sync globals") {
			t.Errorf("got %q", lines)
		}
	})
}

func TestPortsWithoutLocalEndpointsAreCounted(t *testing.T) {
	runAgent(t, Options{ProbePeriod: time.Hour}, func(s *fixture) {
		service := web("web", "10.96.0.1", "10.244.0.1")
		service.InternalLocal, service.ExternalLocal = true, true
		service.Ports[0].NodePort = 30000
		inner := web("inner", "10.96.0.2", "10.244.0.1")
		inner.InternalLocal, inner.ExternalLocal = true, true // nothing comes from outside
		empty := web("empty", "10.96.0.3", "10.244.0.1")
		empty.InternalLocal, empty.Endpoints = true, nil
		s.source.put(service, inner, empty)
		s.source.change(func(c *model.Changes) { c.Node = &model.Node{Name: "here"} })
		s.run(true)
		s.expect("nolocal", "0s IPv4 nolocal 2 1")
		s.until(10 * time.Second)
		better := *service
		better.Endpoints = []model.Endpoint{at("here", "10.244.1.1")}
		s.source.put(&better)
		s.expect("nolocal", "10s IPv4 nolocal 1 0")
		s.until(20 * time.Second)
		s.source.change(func(c *model.Changes) { changesOf(c)[service.Name], changesOf(c)[inner.Name] = service, nil })
		s.expect("nolocal", "20s IPv4 nolocal 1 1")
		s.until(30 * time.Second)
		s.source.remove(service.Name)
		s.expect("nolocal", "30s IPv4 nolocal 0 0")
	})
}

// TestTheAgentEndsAtOnce whatever it is doing: runAgent checks that no time passes.
func TestTheAgentEndsAtOnce(t *testing.T) {
	for name, test := range map[string]func(s *fixture, b *fakeBackend){
		"before the source is ready": func(s *fixture, _ *fakeBackend) { s.run(false) },
		"with nothing to do": func(s *fixture, _ *fakeBackend) {
			s.run(true)
			s.until(time.Minute)
		},
		"in the first sync": func(s *fixture, b *fakeBackend) {
			b.took = time.Hour
			s.run(true)
		},
		"in the back-off": func(s *fixture, b *fakeBackend) {
			b.broken = errKernel
			s.run(true)
			s.until(40 * time.Second)
		},
		"while flows are looked at": func(s *fixture, _ *fakeBackend) {
			s.flows[model.IPv4].took = time.Hour
			s.run(true)
		},
		"while it looks for drift": func(s *fixture, b *fakeBackend) {
			b.pending = time.Hour
			s.run(true)
			s.until(2 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) { runAgent(t, Options{}, func(s *fixture) { test(s, s.backends[model.IPv4]) }) })
	}
}

// TestDumpWhileThingsChange is for the race detector, and for answers that are whole.
func TestDumpWhileThingsChange(t *testing.T) {
	runAgent(t, Options{Families: both(), MinSyncPeriod: time.Millisecond}, func(s *fixture) {
		s.run(true)
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for range 100 {
					_ = s.agent.Dump(named("web"))
					_ = s.agent.Overview()
					_, _ = s.agent.DumpAddress(netip.MustParseAddr("10.96.0.1"))
					time.Sleep(time.Millisecond)
				}
			})
		}
		for i := range 100 {
			s.source.put(web("web", "10.96.0.1", fmt.Sprintf("10.244.0.%d", i+1)))
			time.Sleep(time.Millisecond)
		}
		readers.Wait()
	})
}

func TestDumpInWords(t *testing.T) {
	runAgent(t, Options{Families: both(), ProbePeriod: time.Hour}, func(s *fixture) {
		s.source.put(web("web", "10.96.0.1", "10.244.0.1"), web("six", "fd00::1", "fd01::1"))
		s.run(true)
		text := s.agent.Dump(named("web"))
		for _, want := range []string{"10.96.0.1", "10.244.0.1:8080", "rules of default/web:http/TCP"} {
			if !strings.Contains(text, want) {
				t.Errorf("the dump lacks %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "six") {
			t.Errorf("the dump tells of another Service:\n%s", text)
		}
		if text, err := s.agent.DumpAddress(netip.MustParseAddr("fd00::1")); err != nil || !strings.Contains(text, "rules of default/six:http/TCP") {
			t.Errorf("got %v and\n%s", err, text)
		}
		if text, err := s.agent.DumpAddress(netip.MustParseAddr("10.96.0.9")); err == nil {
			t.Errorf("text about an address that no Service has:\n%s", text)
		}
		s.backends[model.IPv6].without = []model.Degradation{{Table: "nat", Reason: model.TableUnreadable}}
		for _, want := range []string{
			"IPv4: 1 Service ports, 0 disputed addresses, 0 ServiceCIDRs, 5 rules or elements in filter, 7 rules or elements in nat\n", "IPv6: 1 Service ports",
			"table nat: iptables cannot show it",
		} {
			if !strings.Contains(s.agent.Overview(), want) {
				t.Errorf("the overview lacks %q:\n%s", want, s.agent.Overview())
			}
		}
	})
}
