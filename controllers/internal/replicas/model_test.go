package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// schedules is how many random lives of a cluster each test lives through; a life lasts some minutes of its own time.
const schedules = 60

const (
	// inFlight is how long an address that was handed out may take to be seen by everybody, timeout how long the API server waits for
	// the webhook. Together they are less than Settle by any clock of the model.
	inFlight = defaultSettle / 2
	timeout  = 2 * time.Second
	// memory is how long an owner keeps an address that it has drawn or lent out of its draws.
	memory = 15 * time.Second
)

// TestNoAddressHasTwoOwners lets real replicas, each with a clock of its own, join, leave, die, freeze and lose answers at a store that
// is slow and lossy. No two may be sure of one address at once, though they do not wait for addresses to settle; and when peace has
// come, all addresses have an owner.
func TestNoAddressHasTwoOwners(t *testing.T) { liveThrough(t, time.Nanosecond, 0) }

// TestNoAddressIsDrawnWhileInFlight asks for more: nobody draws, or lends, what another one drew before everybody could have seen it.
func TestNoAddressIsDrawnWhileInFlight(t *testing.T) { liveThrough(t, defaultSettle, inFlight) }

func liveThrough(t *testing.T, settle, inFlight time.Duration) {
	t.Helper()
	borrowed := 0
	for seed := range uint64(schedules) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			w.settle, w.inFlight = settle, inFlight
			w.live()
			borrowed += w.borrowed
		})
		if t.Failed() {
			return
		}
	}
	if borrowed < 10*schedules {
		t.Errorf("in %d lives only %d addresses were borrowed", schedules, borrowed)
	}
}

// TestOneAtATimeSettlesAnAddress asks for more where nothing goes wrong but that replicas come, leave and die: no address may be claimed by one of them
// while another one hands it out by itself, or claims it too. Only where nobody serves, as at the start, they have no order.
func TestOneAtATimeSettlesAnAddress(t *testing.T) {
	inherited := 0
	for seed := range uint64(schedules) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			w.settle, w.inFlight, w.wicked = defaultSettle, inFlight, 0
			w.begin()
			w.begin()
			for end := time.Now().Add(3 * time.Minute); time.Now().Before(end) && !t.Failed(); {
				w.comeAndGo()
				for next := time.Now().Add(time.Duration(1+w.n(30)) * time.Second); time.Now().Before(next); time.Sleep(25 * time.Millisecond) {
					inherited += w.expectTurns(address(w.n(addresses)))
				}
			}
			w.end()
		})
		if t.Failed() {
			return
		}
	}
	if inherited < 10*schedules {
		t.Errorf("in %d lives an address had an heir only %d times", schedules, inherited)
	}
}

// comeAndGo lets a replica come, leave or die.
func (w *world) comeAndGo() {
	alive := w.alive()
	n := alive[w.n(len(alive))]
	switch {
	case len(alive) < 2 || len(alive) < 5 && w.n(2) == 0:
		w.begin()
	case w.n(2) == 0:
		w.note("%s is stopped", n.members.ID())
		n.stop()
		<-n.stopped
		w.kill(n)
	default:
		w.note("%s is killed", n.members.ID())
		w.kill(n)
		n.stop()
		<-n.stopped
	}
}

// expectTurns complains if more than one replica may hand an address out, and returns how many have inherited it.
func (w *world) expectTurns(a netip.Addr) (heirs int) {
	var owners, claimants []string
	serving := false
	for _, n := range w.alive() {
		rights := n.members.Rights()
		serving = serving || rights.Sure
		switch rights.Of(a) {
		case Outright:
			owners = append(owners, n.members.ID())
		case Claimable:
			claimants = append(claimants, n.members.ID())
		}
	}
	if serving && len(owners)+len(claimants) > 1 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fail("%s is handed out by %v and claimed by %v", a, owners, claimants)
	}
	return len(claimants)
}

// world is a cluster in the model. Time is that of the bubble.
type world struct {
	t    *testing.T
	seed uint64
	// settle is the replicas' Option, inFlight how long a draw stays unseen.
	settle, inFlight time.Duration
	// wicked is how often, of a thousand times, a node freezes at the moment of a request or answer.
	wicked int

	mu       sync.Mutex
	random   *rand.Rand
	trouble  bool
	log      []string
	leases   map[string]lease
	versions int
	watchers map[*node]func(l lease, gone bool)
	nodes    []*node
	drawn    map[netip.Addr]draw
	borrowed int
}

type draw struct {
	by *node
	at time.Time
}

// node is a machine with a replica on it: the store as it sees it, and its clock.
type node struct {
	*world
	members *Members
	clock   *drifting
	stop    context.CancelFunc
	stopped chan struct{}
	// frozen is until when nothing runs there, cut until when nothing comes through; dead is for ever.
	frozen, cut time.Time
	dead        bool
	// taken is when the node drew or lent an address, by its clock.
	taken map[netip.Addr]time.Time
}

func newWorld(t *testing.T, seed uint64) *world {
	random := rand.New(rand.NewPCG(seed, 1))
	return &world{
		t: t, seed: seed, random: random, wicked: random.IntN(80), leases: map[string]lease{},
		watchers: map[*node]func(lease, bool){}, drawn: map[netip.Addr]draw{},
	}
}

// live is three minutes of trouble, then peace.
func (w *world) live() {
	w.trouble = true
	w.begin()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end) && !w.t.Failed(); {
		time.Sleep(time.Duration(w.n(4000)) * time.Millisecond)
		w.happen()
	}
	w.makePeace()
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end) && !w.t.Failed(); {
		time.Sleep(time.Second)
	}
	w.expectPeace()
	w.end()
}

// happen is one misfortune.
func (w *world) happen() {
	alive := w.alive()
	if len(alive) == 0 || len(alive) < 5 && w.n(5) == 0 {
		w.begin()
		return
	}
	n := alive[w.n(len(alive))]
	until := time.Now().Add(time.Duration(w.n(40)) * time.Second)
	switch w.n(10) {
	case 0:
		w.note("%s is stopped", n.members.ID())
		w.unfreeze(n)
		n.stop()
		<-n.stopped
		w.kill(n)
	case 1:
		w.note("%s is killed", n.members.ID())
		w.kill(n)
		n.stop()
		<-n.stopped
	case 2, 3:
		w.note("%s is frozen until %s", n.members.ID(), until.Format("05.000"))
		w.mu.Lock()
		n.frozen = until
		w.mu.Unlock()
	case 4, 5:
		w.note("%s is cut off until %s", n.members.ID(), until.Format("05.000"))
		w.mu.Lock()
		n.cut = until
		w.mu.Unlock()
	case 6:
		w.note("all are cut off until %s", until.Format("05.000"))
		w.mu.Lock()
		for _, n := range alive {
			n.cut = until
		}
		w.mu.Unlock()
	}
}

// rates of clocks. No two replicas may differ by more than half, which is far more than clocks do.
var rates = []float64{0.82, 0.9, 1, 1, 1.1, 1.2}

func (w *world) begin() {
	n := &node{world: w, stopped: make(chan struct{}), taken: map[netip.Addr]time.Time{}}
	n.clock = &drifting{node: n, began: time.Now(), rate: rates[w.n(len(rates))], offset: time.Duration(w.n(7200)) * time.Second}
	o := Options{Clock: n.clock, Settle: w.settle, Lend: n.take}.withDefaults()
	n.members = newMembers(fmt.Sprintf("r%d", len(w.nodes)), n, o)
	var ctx context.Context
	ctx, n.stop = context.WithCancel(w.t.Context())
	w.note("%s begins, rate %.2f", n.members.ID(), n.clock.rate)
	w.mu.Lock()
	w.nodes = append(w.nodes, n)
	w.mu.Unlock()
	go func() {
		defer close(n.stopped)
		_ = n.members.Start(ctx)
	}()
	go n.draw()
}

// draw is the webhook of a node.
func (n *node) draw() {
	for {
		time.Sleep(time.Duration(n.n(300)) * time.Millisecond)
		n.thaw()
		if n.isDead() {
			return
		}
		began, a := time.Now(), address(n.n(addresses))
		if !n.obtain(a) {
			continue
		}
		time.Sleep(time.Duration(n.n(300)) * time.Millisecond)
		n.thaw()
		if !n.isDead() && time.Since(began) < timeout {
			n.hand(a)
		}
	}
}

// obtain draws an address, or borrows it.
func (n *node) obtain(a netip.Addr) bool {
	shard, sure := n.members.Shard()
	if sure {
		n.compare()
	}
	if shard.Owns(a) {
		return sure && n.take(a)
	}
	if n.n(4) > 0 {
		return false
	}
	granted, err := n.members.Borrow(n.t.Context(), a)
	if err != nil || granted != Outright {
		return false // what it may claim the API server settles, which is not in the model
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.borrowed++
	return true
}

// take takes an address out of the node's draws, unless it is already. It is what a ledger does.
func (n *node) take(a netip.Addr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now()
	if at, ok := n.taken[a]; ok && now.Sub(at) < memory {
		return false
	}
	n.taken[a] = now
	return true
}

// hand gives an address out, and complains if another node did within the time that it takes to be seen.
func (n *node) hand(a netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, ok := n.drawn[a]
	if ok && last.by != n && time.Since(last.at) < n.inFlight {
		n.fail("%s handed out %s %s after %s did", n.members.ID(), a, time.Since(last.at), last.by.members.ID())
	}
	n.drawn[a] = draw{by: n, at: time.Now()}
}

// compare looks for another node that is sure, and does not reckon with this one as this one reckons with it. Of a large range, two such
// nodes would own many addresses both.
func (n *node) compare() {
	n.mu.Lock()
	defer n.mu.Unlock()
	mine := n.members.current.Load()
	for _, other := range n.nodes {
		if _, sure := other.members.Shard(); other == n || other.dead || !sure || time.Now().Before(other.frozen) {
			continue
		}
		its := other.members.current.Load()
		if !slices.Contains(mine.reckoned, other.members.ID()) || !slices.Contains(its.reckoned, n.members.ID()) {
			n.fail("%s is sure among %v, %s among %v", n.members.ID(), mine.reckoned, other.members.ID(), its.reckoned)
		}
	}
}

// fail tells the story; the lock is held.
func (w *world) fail(format string, args ...any) {
	w.t.Errorf("seed %d: %s at %s:\n%s", w.seed, fmt.Sprintf(format, args...), time.Now().Format("04:05.000"), strings.Join(w.log, "\n"))
}

const addresses = 48

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }

func (w *world) makePeace() {
	w.note("peace")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = false
	for _, n := range w.nodes {
		n.frozen, n.cut = time.Time{}, time.Time{}
	}
}

// expectPeace checks that all that live know one another, and own everything together.
func (w *world) expectPeace() {
	var want []string
	alive := w.alive()
	for _, n := range alive {
		want = append(want, n.members.ID())
	}
	slices.Sort(want)
	owners := map[netip.Addr]int{}
	for _, n := range alive {
		if diff := cmp.Diff(want, n.members.Living()); diff != "" {
			w.t.Errorf("seed %d: %s knows others than live, -want +got:\n%s\n%s", w.seed, n.members.ID(), diff, strings.Join(w.log, "\n"))
		}
		shard, sure := n.members.Shard()
		if !sure {
			w.t.Errorf("seed %d: %s is not sure of its shard in peace:\n%s", w.seed, n.members.ID(), strings.Join(w.log, "\n"))
		}
		for i := range addresses {
			if shard.Owns(address(i)) {
				owners[address(i)]++
			}
		}
	}
	for i := range addresses {
		if got := owners[address(i)]; got != 1 && len(alive) > 0 {
			w.t.Errorf("seed %d: %s has %d owners in peace", w.seed, address(i), got)
		}
	}
}

func (w *world) end() {
	w.mu.Lock()
	nodes := slices.Clone(w.nodes)
	w.mu.Unlock()
	for _, n := range nodes {
		w.kill(n)
		n.stop()
		<-n.stopped
	}
}

func (w *world) alive() []*node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return n.dead })
}

func (w *world) kill(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n.dead, n.frozen = true, time.Time{}
}

func (w *world) unfreeze(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n.frozen = time.Time{}
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) n(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (n *node) isDead() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

// thaw is where a node may freeze: it returns when it runs.
func (n *node) thaw() {
	for {
		n.mu.Lock()
		left := time.Until(n.frozen)
		n.mu.Unlock()
		if left <= 0 {
			return
		}
		time.Sleep(min(left, time.Second))
	}
}

// hiccup freezes the node at a bad moment, now and then.
func (n *node) hiccup() {
	n.mu.Lock()
	if n.trouble && !n.dead && n.random.IntN(1000) < n.wicked {
		n.frozen = time.Now().Add(time.Duration(n.random.IntN(30)) * time.Second)
	}
	n.mu.Unlock()
	n.thaw()
}

// delay is how long a message takes.
func (n *node) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := time.Duration(1+n.random.IntN(20)) * time.Millisecond
	if n.trouble && n.random.IntN(20) == 0 {
		d += time.Duration(n.random.IntN(15000)) * time.Millisecond
	}
	if cut := time.Until(n.cut); cut > 0 {
		d += cut // it waits in a buffer somewhere, or is lost
	}
	return d
}

// lost tells whether a message never arrives.
func (n *node) lost() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead || n.trouble && (n.random.IntN(50) == 0 || time.Now().Before(n.cut) && n.random.IntN(2) == 0)
}

var errLost = errors.New("lost")

type answer struct {
	leases []lease
	err    error
}

// ask carries a request to the store and the answer back. A request that nobody waits for any more is carried out all the same.
func (n *node) ask(ctx context.Context, do func() answer) answer {
	n.hiccup()
	back := make(chan answer, 1)
	if !n.lost() {
		go func() {
			time.Sleep(n.delay())
			n.mu.Lock()
			a := do()
			n.mu.Unlock()
			time.Sleep(n.delay())
			if !n.lost() {
				back <- a
			}
		}()
	}
	var a answer
	select {
	case a = <-back:
	case <-ctx.Done():
		a = answer{err: errLost}
	}
	n.hiccup()
	return a
}

func (n *node) list(ctx context.Context) ([]lease, error) {
	a := n.ask(ctx, func() (a answer) {
		for _, l := range n.leases {
			a.leases = append(a.leases, l)
		}
		return a
	})
	return a.leases, a.err
}

func (n *node) create(ctx context.Context, l lease) (lease, error) {
	return n.one(ctx, func() (lease, error) {
		if _, exists := n.leases[l.id]; exists {
			return l, apierrors.NewAlreadyExists(schema.GroupResource{}, l.id)
		}
		n.versions++
		l.uid = types.UID(fmt.Sprintf("u%d", n.versions))
		return n.store(l), nil
	})
}

func (n *node) update(ctx context.Context, l lease) (lease, error) {
	return n.one(ctx, func() (lease, error) {
		if err := n.check(l); err != nil {
			return l, err
		}
		return n.store(l), nil
	})
}

func (n *node) remove(ctx context.Context, l lease) error {
	_, err := n.one(ctx, func() (lease, error) {
		if err := n.check(l); err != nil {
			return l, err
		}
		n.versions++
		l.version = fmt.Sprint(n.versions)
		delete(n.leases, l.id)
		n.spread(l, true)
		return l, nil
	})
	return err
}

func (n *node) one(ctx context.Context, do func() (lease, error)) (lease, error) {
	a := n.ask(ctx, func() answer {
		l, err := do()
		return answer{[]lease{l}, err}
	})
	if a.err != nil {
		return lease{}, a.err
	}
	return a.leases[0], nil
}

func (w *world) check(l lease) error {
	stored, exists := w.leases[l.id]
	if !exists {
		return apierrors.NewNotFound(schema.GroupResource{}, l.id)
	}
	if stored.uid != l.uid || l.version != "" && stored.version != l.version {
		return apierrors.NewConflict(schema.GroupResource{}, l.id, errors.New("another version"))
	}
	return nil
}

func (w *world) store(l lease) lease {
	w.versions++
	l.version = fmt.Sprint(w.versions)
	w.leases[l.id] = l
	w.spread(l, false)
	return l
}

// spread tells the watches, some of them late.
func (w *world) spread(l lease, gone bool) {
	for n, tell := range w.watchers {
		go func() {
			time.Sleep(n.delay())
			n.thaw()
			tell(l, gone)
		}()
	}
}

// follow watches until the watch is lost.
func (n *node) follow(ctx context.Context, changed func(l lease, gone bool)) error {
	n.mu.Lock()
	var one sync.Mutex
	open := true
	newest := map[string]int{}
	tell := func(l lease, gone bool) {
		one.Lock()
		defer one.Unlock()
		version, _ := strconv.Atoi(l.version)
		if open && version >= newest[l.id] { // a watch tells in order
			newest[l.id] = version
			changed(l, gone)
		}
	}
	n.watchers[n] = tell
	for _, l := range n.leases { // a watch begins with what is there
		go func() {
			time.Sleep(n.delay())
			n.thaw()
			tell(l, false)
		}()
	}
	n.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(n.n(60)) * time.Second):
	}
	n.mu.Lock()
	delete(n.watchers, n)
	n.mu.Unlock()
	one.Lock()
	open = false
	one.Unlock()
	if n.troubled() && n.n(2) == 0 {
		return errLost
	}
	return nil
}

func (w *world) troubled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// drifting is a clock that goes wrong, on a node that freezes.
type drifting struct {
	clock.Clock
	node   *node
	began  time.Time
	rate   float64
	offset time.Duration
}

func (c *drifting) Now() time.Time {
	return c.began.Add(c.offset + time.Duration(float64(time.Since(c.began))*c.rate))
}

func (c *drifting) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *drifting) NewTimer(d time.Duration) clock.Timer {
	t := &lateTimer{fires: make(chan time.Time, 1), stop: make(chan struct{})}
	go func() {
		select {
		case <-t.stop:
			return
		case <-time.After(time.Duration(float64(d) / c.rate)):
		}
		c.node.thaw()
		t.fires <- c.Now()
	}()
	return t
}

// lateTimer fires when its node runs.
type lateTimer struct {
	clock.Timer
	fires chan time.Time
	stop  chan struct{}
}

func (t *lateTimer) C() <-chan time.Time { return t.fires }

func (t *lateTimer) Stop() bool {
	close(t.stop)
	return true
}
