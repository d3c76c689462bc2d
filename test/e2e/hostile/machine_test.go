package hostile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// turns is how long the threads of the agent had a processor, and how long they waited for one.
type turns struct{ ran, waited time.Duration }

// turns reads them from the scheduler of the kernel.
func (env *fixture) turns() (t turns) {
	GinkgoHelper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", env.Agent.Pid()))
	Expect(err).NotTo(HaveOccurred())
	Expect(threads).NotTo(BeEmpty())
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited time.Duration
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			t.ran, t.waited = t.ran+ran, t.waited+waited
		}
	}
	return t
}

// since is what came to it after an earlier reading.
func (t turns) since(before turns) turns { return turns{t.ran - before.ran, t.waited - before.waited} }

// slowness is by what factor the agent took longer because other programs had the processor.
func (t turns) slowness() float64 {
	if t.ran <= 0 {
		return 1
	}
	return max(1, float64(t.ran+t.waited)/float64(t.ran))
}

func (t turns) String() string {
	return fmt.Sprintf("%s of processor, %.1f times slower for what else the machine does", round(t.ran), t.slowness())
}
