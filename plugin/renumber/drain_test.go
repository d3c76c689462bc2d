package renumber

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// silent shows no progress.
type silent struct{}

func (silent) Begin(string, int) {}
func (silent) Done(int)          {}
func (silent) End()              {}

// slow is the clock of a busy machine: between any two looks at it a second has passed.
type slow struct{ *clocktesting.FakePassiveClock }

func (c slow) Now() time.Time {
	c.SetTime(c.FakePassiveClock.Now().Add(time.Second))
	return c.FakePassiveClock.Now()
}

// A used address is kept, however short Quiet is and long a round. No Client could release it.
func TestWhatIsUsedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all []Held
		used := map[netip.Addr]int{}
		for _, text := range []string{"10.96.0.7", "fd00:96::7"} {
			address := netip.MustParseAddr(text)
			all, used[address] = append(all, Held{Address: address}), 1
		}
		rounds := 0
		d := Drain{Quiet: time.Millisecond, Limit: 1000 * time.Hour, Connections: func(context.Context) (map[netip.Addr]int, error) {
			if rounds++; rounds == 3 {
				cancel()
			}
			return used, nil
		}}
		clock := slow{clocktesting.NewFakePassiveClock(time.Time{}.Add(time.Hour))}
		if released, err := d.Wait(ctx, Mover{Clock: clock}, batch.Pace{Progress: silent{}}, all); released != 0 || !errors.Is(err, context.Canceled) || rounds != 3 {
			t.Errorf("after %d rounds released %d of two that are used: %v", rounds, released, err)
		}
	})
}
