package enforcement_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// life is what was sent to an API server from the moment in which its port opened: before /readyz
// was content, and after.
type life struct {
	ready                 time.Duration // from the kill
	strangers, legitimate [2]int        // requests that were answered, before and after
	letIn, refused        [2]int        // of these, what should not have been
	complaint             string
}

// restart kills the API server, starts it again, and sends creations all the while: of a Service
// that may not have its addresses, and of one that may.
func restart(ctx context.Context, enough int) (l life) {
	GinkgoHelper()
	var mu sync.Mutex
	var ready atomic.Int64 // Unix nanoseconds, 0 while it is not
	var after atomic.Int64
	killed := time.Now()
	Expect(cp.API.Kill()).To(Succeed())
	var senders sync.WaitGroup
	var done atomic.Bool // requests are not cut off: what they had allocated would stay
	end := func() { done.Store(true); senders.Wait() }
	defer end()
	plain := rest.CopyConfig(cp.AdminConfig())
	transport, err := rest.HTTPClientFor(plain)
	Expect(err).NotTo(HaveOccurred())
	senders.Go(func() {
		for !done.Load() && ready.Load() == 0 {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, plain.Host+"/readyz", nil)
			if err != nil {
				return
			}
			if answer, err := transport.Do(request); err == nil {
				_ = answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					ready.Store(time.Now().UnixNano())
					return
				}
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	send := func(build func(i int) *corev1.Service, answered, wrong *[2]int, isWrong func(error) bool) {
		for i := 0; !done.Load(); i++ {
			sent, s := ready.Load(), build(10+i%200)
			err := admin.Create(ctx, s)
			if err != nil && apierrors.ReasonForError(err) == "" { // no API server answered
				time.Sleep(time.Millisecond)
				continue
			}
			phase := 0
			if sent != 0 {
				phase = 1
			}
			mu.Lock()
			answered[phase]++
			if isWrong(err) {
				wrong[phase]++
				l.complaint = fmt.Sprint(err)
			}
			mu.Unlock()
			if phase == 1 {
				after.Add(1)
			}
			for err == nil && !done.Load() && client.IgnoreNotFound(admin.Delete(ctx, s)) != nil {
				time.Sleep(time.Millisecond)
			}
		}
	}
	addressed := func(namespace string) func(int) *corev1.Service {
		return func(i int) *corev1.Service {
			s := service(namespace, "", nil, fmt.Sprint("10.5.0.", i), fmt.Sprintf("fd00:5::%x", i))
			s.GenerateName = "sent-"
			return s
		}
	}
	senders.Go(func() {
		send(addressed("plain"), &l.strangers, &l.letIn, func(err error) bool { return err == nil })
	})
	// An address of a request that the kill cut off stays allocated until the API server repairs.
	senders.Go(func() {
		send(addressed("red"), &l.legitimate, &l.refused, func(err error) bool {
			return err != nil && !strings.Contains(err.Error(), "already allocated")
		})
	})
	Expect(cp.API.Start(ctx)).To(Succeed())
	Eventually(after.Load).WithTimeout(time.Minute).Should(BeNumerically(">=", enough))
	end()
	l.ready = time.Unix(0, ready.Load()).Sub(killed)
	return l
}

// The operator is down: the API server is alone with what it was given.
var _ = Describe("An API server that is killed and started again", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		before, reader := cp, admin
		DeferCleanup(func() { cp, admin = before, reader })
		prepare(ctx)
		stop := start(ctx)
		offer(ctx, "red", "10.5.0.0/24", "fd00:5::/120")
		create(ctx, exclusive("red", "red", "red"))
		enforced(ctx, "red", "10.5.0.3", "fd00:5::3")
		stop()
	})

	lives := func(ctx context.Context, n int) {
		GinkgoHelper()
		var table strings.Builder
		fmt.Fprintln(&table, "life  ready    strangers let in before /readyz  after      legitimate refused before /readyz  after")
		var sum life
		for i := range n {
			l := restart(ctx, 30)
			fmt.Fprintf(&table, "%4d  %5.1f s  %16d of %-12d  %3d of %-4d %18d of %-12d   %3d of %d\n", i+1, l.ready.Seconds(), l.letIn[0], l.strangers[0], l.letIn[1], l.strangers[1],
				l.refused[0], l.legitimate[0], l.refused[1], l.legitimate[1])
			for phase := range 2 {
				sum.letIn[phase] += l.letIn[phase]
				sum.strangers[phase] += l.strangers[phase]
				sum.refused[phase] += l.refused[phase]
				sum.legitimate[phase] += l.legitimate[phase]
			}
			Expect(l.letIn[1]).To(BeZero(), "strangers were let in after /readyz\n%s%s", table.String(), l.complaint)
			Expect(l.refused[1]).To(BeZero(), "legitimate Services were refused after /readyz\n%s%s", table.String(), l.complaint)
		}
		fmt.Fprintf(&table, " all           %16d of %-12d  %3d of %-4d %18d of %-12d   %3d of %d\n", sum.letIn[0], sum.strangers[0], sum.letIn[1], sum.strangers[1],
			sum.refused[0], sum.legitimate[0], sum.refused[1], sum.legitimate[1])
		AddReportEntry("what passes while an API server starts", table.String(), ReportEntryVisibilityAlways)
	}
	It("refuses no legitimate Service and lets no other in once it is ready", Label("long"), func(ctx SpecContext) { lives(ctx, 2) })
	It("refuses no legitimate Service and lets no other in once it is ready, thirty times", Label("soak"), func(ctx SpecContext) { lives(ctx, 30) })

	// An API server asks the ServiceCIDRs for an address in the order of a Go map.
	It("draws from closed ranges while webhooks are away, more or less often for as long as it lives", Label("soak"), func(ctx SpecContext) {
		const each = 40
		var table strings.Builder
		for i := range 10 {
			Expect(cp.API.Kill()).To(Succeed())
			Expect(cp.API.Start(ctx)).To(Succeed())
			refused := 0
			for range each {
				s := framework.NewService("plain", "")
				s.GenerateName = "drawn-"
				if err := admin.Create(ctx, s); err != nil {
					Expect(err).To(beRefused("red"))
					refused++
					continue
				}
				Expect(admin.Delete(ctx, s)).To(Succeed())
			}
			fmt.Fprintf(&table, "life %2d: %2d of %d creations were refused\n", i+1, refused, each)
		}
		AddReportEntry("one open and one closed range, no webhooks", table.String(), ReportEntryVisibilityAlways)
	})
})
