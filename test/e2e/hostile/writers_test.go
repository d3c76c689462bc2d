package hostile_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
)

// often is the pace of programs that write firewalls beside the agent: a hundred times a second.
const often = 10 * time.Millisecond

// writers are network plugins and firewalls on the node. They touch nothing of the agent's.
func writers(env *fixture) []party {
	return []party{nftablesWriter(env), iptablesWriter(env)}
}

// nftablesWriter changes tables of its own, in each family: a rule, an element, and now and then a
// whole set and a chain.
func nftablesWriter(env *fixture) party {
	var conn *nftables.Conn
	tables := []*nftables.Table{
		{Name: "plugin", Family: nftables.TableFamilyIPv4}, {Name: "plugin", Family: nftables.TableFamilyIPv6}, {Name: "plugin", Family: nftables.TableFamilyINet},
	}
	return party{
		what: "a program that writes nf_tables a hundred times a second", every: often,
		enter: func(context.Context) (err error) {
			return env.Node.Do(func() error {
				conn, err = nftables.New(nftables.AsLasting())
				return err
			})
		},
		act: func(_ context.Context, i int) error {
			table := tables[i%len(tables)]
			if i >= len(tables) && i/len(tables)%10 == 0 {
				conn.DelTable(table)
			}
			conn.AddTable(table)
			chain := conn.AddChain(&nftables.Chain{Table: table, Name: "forward"})
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Counter{}}})
			set := &nftables.Set{Table: table, Name: fmt.Sprintf("ports-%d", i%30), KeyType: nftables.TypeInetService}
			if err := conn.AddSet(set, []nftables.SetElement{{Key: []byte{byte(i >> 8), byte(i)}}}); err != nil {
				return err
			}
			return conn.Flush()
		},
		leave: func(context.Context) {
			for _, table := range tables {
				conn.DelTable(table)
			}
			_ = conn.Flush() // those that it did not come to are not there
			_ = conn.CloseLasting()
		},
	}
}

// iptablesWriter replaces the rules of a chain of its own with iptables-restore, in both families
// in turn, as often as that can be done.
func iptablesWriter(env *fixture) party {
	each := func(ctx context.Context, rules string) error {
		for _, family := range environment.Families {
			if err := env.restore(ctx, family, "*nat\n"+rules+"COMMIT\n"); err != nil {
				return err
			}
		}
		return nil
	}
	return party{
		what: "a program that writes iptables as often as it can", every: often, modes: environment.Variants,
		enter: func(ctx context.Context) error { return each(ctx, ":PLUGIN - [0:0]\n-A PREROUTING -j PLUGIN\n") },
		act: func(ctx context.Context, i int) error {
			return env.restore(ctx, environment.Families[i%2], fmt.Sprintf("*nat\n:PLUGIN - [0:0]\n-A PLUGIN -p tcp -m tcp --dport %d -j RETURN\nCOMMIT\n", 1+i%60_000))
		},
		leave: func(ctx context.Context) {
			Expect(each(ctx, "-D PREROUTING -j PLUGIN\n-F PLUGIN\n-X PLUGIN\n")).To(Succeed())
		},
	}
}

// restore runs iptables-restore as another program on the node does, and returns what it says if it
// fails.
func (env *fixture) restore(ctx context.Context, family, rules string) error {
	cmd := env.Node.Command(ctx, "ip"+family+"tables-"+env.Mode+"-restore", "--noflush", "-w", "20")
	cmd.Env = append(os.Environ(), "XTABLES_LOCKFILE="+env.Node.LockFile())
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return nil
}
