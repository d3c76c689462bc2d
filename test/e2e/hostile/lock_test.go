package hostile_test

import (
	"context"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
)

// legacy is the only mode that waits for the lock of iptables: iptables-nft knows none.
const legacy = "legacy"

// lockHolder holds the lock of iptables, as iptables-legacy does while it rewrites a large table.
// In mode legacy no change can be written meanwhile: see below.
func lockHolder(env *fixture) party {
	var lock *os.File
	return party{
		what: "a process that holds the lock of iptables", modes: []string{"nft", environment.Native},
		enter: func(context.Context) (err error) {
			lock, err = env.lock()
			return err
		},
		leave: func(context.Context) { Expect(lock.Close()).To(Succeed()) },
	}
}

// lock takes the lock until the file is closed.
func (env *fixture) lock() (*os.File, error) {
	file, err := os.OpenFile(env.Node.LockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return file, unix.Flock(int(file.Fd()), unix.LOCK_EX)
}

// held is how long the lock is held in mode legacy: longer than one iptables-restore of the agent
// waits for it.
const held = 22 * time.Second

// waitsForLock declares what the agent does in mode legacy while the lock is held.
func waitsForLock(env *fixture) {
	if env.Mode != legacy {
		return
	}
	It("goes on while a process holds the lock of iptables, says what it waits for, and catches up", func(ctx SpecContext) {
		health := env.watchHealth()
		traffic := env.traffic()
		lock, err := env.lock()
		Expect(err).NotTo(HaveOccurred())
		released := time.Now().Add(held)
		e := environment.Endpoint{Of: env.Pod2, Extra: 30}
		env.Endpoints(ctx, env.moving, e)
		for time.Now().Before(released) {
			Expect(env.Agent.Metrics(ctx)).NotTo(BeEmpty())
			time.Sleep(time.Second)
		}
		Expect(lock.Close()).To(Succeed())
		for _, f := range []model.Family{model.IPv4, model.IPv6} {
			environment.Answers(env.Pod1, environment.VIP(env.moving, f), e)
		}
		Expect(env.Agent.LogTail(50)).To(ContainSubstring("another program holds the xtables lock"))
		health.wasFine()
		traffic.LostNothing()
	})
}
