//go:build linux

package nftables

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// othersWrite has another program with many chains of its own write nf_tables all the time, in the
// family of the table, until the test ends.
func othersWrite(t *testing.T, f model.Family, pause time.Duration) {
	t.Helper()
	k, err := open(f)
	if err != nil {
		t.Fatal(err)
	}
	k.table.Name = "a-network-plugin" // sorts and was made before ours
	k.conn.AddTable(k.table)
	for i := range 1000 {
		k.conn.AddChain(&nftables.Chain{Name: fmt.Sprint("pod-", i), Table: k.table})
	}
	if err := k.flush(); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				stopped <- n
				return
			case <-time.After(pause):
			}
			c := &nftables.Chain{Name: "come-and-go", Table: k.table}
			if n%2 == 0 {
				k.conn.AddChain(c)
			} else {
				k.conn.DelChain(c)
			}
			if err := k.flush(); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		t.Logf("the other program wrote %d times", <-stopped)
		k.close()
	})
}

// TestBesideOthersThatWriteNoChangeFails has each change take another chain, whose handles are read
// after it was written.
func TestBesideOthersThatWriteNoChangeFails(t *testing.T) {
	each(t, func(t *testing.T, p *Proxier, d model.Delta) {
		othersWrite(t, d.Globals.Family, time.Millisecond)
		if _, err := p.Sync(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "a"}, Protocol: model.TCP}
		port, failed := *d.Ports[name], 0
		for i := range 100 {
			port.Cluster = plans.Endpoints(d.Globals.Family, 3+i)
			changed := port
			if full, err := p.Sync(t.Context(), model.Delta{Ports: map[model.PortName]*model.ServicePort{name: &changed}}); err != nil || full {
				failed++
				t.Log(full, err)
			}
		}
		if found, err := p.Check(t.Context(), later()); err != nil || len(found) > 0 {
			t.Errorf("without drift it repaired %q, %v", found, err)
		}
		if failed > 0 {
			t.Errorf("of 100 changes, %d were told to have failed, or compared everything", failed)
		}
	})
}
