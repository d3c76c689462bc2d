package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/test/framework/alone"
)

const reviewOfAService = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE",` +
	`"resource":{"group":"","version":"v1","resource":"services"},"userInfo":{"username":"someone"},"object":{"kind":"Service","metadata":{"name":"a"}}}}`

// served of a handler are creations of Services, of which the name is read.
func creations(handler admission.HandlerFunc, room *Room) http.Handler {
	return Serve(Endpoint{Resource: "services", Operations: []admissionv1.Operation{admissionv1.Create}, Handler: handler,
		Reads: Members{"metadata": {Members: Members{"name": {Max: 256}}}}}, room)
}

func post(t testing.TB, handler http.Handler, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body))
	return answer
}

// What an API server sends reaches the handler; everything else is refused, and reaches no handler.
func TestEndpointTakesReviewsOfAnAPIServerAlone(t *testing.T) {
	reached := 0
	hook := creations(func(_ context.Context, r admission.Request) admission.Response {
		reached++
		return admission.Allowed(string(r.Object.Raw))
	}, NewRoom(Budget))
	const failed, refused, answered = "failed", "refused", "answered"
	for name, tc := range map[string]struct{ old, new, want string }{
		"no JSON":                 {reviewOfAService, "x", failed},
		"nothing":                 {reviewOfAService, "", failed},
		"an end too early":        {`"a"}}}}`, `"a"`, failed},
		"no request":              {"request", "reply", refused},
		"no UID":                  {`"uid":"u",`, "", refused},
		"no user":                 {"someone", "", refused},
		"another resource":        {"services", "pods", refused},
		"another group":           {`"group":""`, `"group":"apps"`, refused},
		"a subresource":           {`"uid"`, `"subResource":"status","uid"`, refused},
		"another operation":       {"CREATE", "DELETE", refused},
		"a user without an end":   {"someone", strings.Repeat("x", 7<<20), refused},
		"a name without an end":   {`"a"`, `"` + strings.Repeat(`\u0000`, 1<<20) + `"`, refused},
		"an old name too long":    {`"object"`, `"oldObject":{"metadata":{"name":"` + strings.Repeat("n", 300) + `"}},"object"`, answered},
		"a review":                {want: answered},
		"a review of 40 MiB":      {`"kind":"Service"`, `"status":{"conditions":[` + strings.Repeat(`{"type":"","status":""},`, 1<<21) + `{}]},"kind":"Service"`, answered},
		"a text of 40 MiB in it":  {`"kind":"Service"`, `"kind":"` + strings.Repeat(`\\`, 20<<20) + `"`, answered},
		"an object that is a key": {`"metadata":{"name":"a"}`, `"metadata":"name"`, answered},
	} {
		reached = 0
		var answer *httptest.ResponseRecorder
		synctest.Test(t, func(t *testing.T) { // whose clock stands still: a busy machine makes no review late
			answer = post(t, hook, strings.NewReader(strings.Replace(reviewOfAService, tc.old, tc.new, 1)))
		})
		var got admissionv1.AdmissionReview
		outcome := failed
		if answer.Code == http.StatusOK {
			if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			outcome = refused
			if got.Response.Allowed {
				outcome = answered
			}
		}
		if outcome != tc.want || (reached == 1) != (tc.want == answered) {
			t.Errorf("%s: it %s, want %s: %d %.200s; the handler was reached %d times", name, outcome, tc.want, answer.Code, answer.Body, reached)
		}
		if outcome == answered && (got.Response.UID != "u" || got.Kind != "AdmissionReview" || len(got.Response.Result.Message) > len(`{"metadata":{"name":"a"}}`)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A panic is left to the HTTP server, which breaks the connection: the request passes.
func TestPanicBreaksTheConnection(t *testing.T) {
	room := NewRoom(Budget)
	hook := creations(func(context.Context, admission.Request) admission.Response { panic("a fault") }, room)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it was answered")
			}
		}()
		post(t, hook, strings.NewReader(reviewOfAService))
	}()
	if !room.reviews.TryAcquire(reviewsAtOnce) {
		t.Error("its place is not free again")
	}
}

// A panic of a reader in the middle of a large review gives back both of its places.
func TestPanicWhileALargeReviewIsRead(t *testing.T) {
	room := NewRoom(Budget)
	hook := creations(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }, room)
	broken := readerFunc(func([]byte) (int, error) { panic("a fault") })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it was answered")
			}
		}()
		post(t, hook, io.MultiReader(strings.NewReader(`{"x":"`+strings.Repeat("x", 2*large)), broken))
	}()
	if !room.large.TryAcquire(largeAtOnce) || !room.reviews.TryAcquire(reviewsAtOnce) {
		t.Error("its place is not free again")
	}
}

// The header of a follower shortens the time that a request has, and nothing extends it.
func TestTimeLeft(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": Budget, "x": Budget, "-1": Budget, "+700": Budget, "1e2": Budget, " 700": Budget, "0x10": Budget, "7_0": Budget,
		"99999999999999999999": Budget, "1701": Budget, "65535": Budget, "1700": Budget,
		"700": 700 * time.Millisecond, "1": time.Millisecond, "0": 0,
	} {
		if got := within(Budget, http.Header{TimeLeftHeader: {text}}); got != want {
			t.Errorf("%q: the budget is %s, want %s", text, got, want)
		}
	}
	if got := within(Budget, http.Header{}); got != Budget {
		t.Errorf("without the header: %s", got)
	}
	if got := within(Budget, http.Header{TimeLeftHeader: {"1", "2"}}); got != Budget {
		t.Errorf("repeated: %s", got)
	}
	for left, want := range map[time.Duration]string{
		-time.Second: "0", 0: "0", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", Budget: "1700", time.Hour: "3600000",
	} {
		h := http.Header{}
		SetTimeLeft(h, left)
		if h.Get(TimeLeftHeader) != want {
			t.Errorf("%s: the header is %q, want %q", left, h.Get(TimeLeftHeader), want)
		}
	}
	var had time.Duration
	hook := creations(func(ctx context.Context, _ admission.Request) admission.Response {
		deadline, _ := ctx.Deadline()
		had = time.Until(deadline)
		return admission.Allowed("")
	}, NewRoom(Budget))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(reviewOfAService))
	SetTimeLeft(r.Header, 700*time.Millisecond)
	hook.ServeHTTP(httptest.NewRecorder(), r)
	if had <= 0 || had > 700*time.Millisecond {
		t.Errorf("the handler had %s", had)
	}
}

// Large reviews wait for their turn, and ordinary ones do not wait for them. One whose turn does
// not come in time is answered as a webhook that failed. The clock stands still while any of them
// works: on a busy machine their budget would be used up.
func TestLargeReviewsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := creations(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }, NewRoom(Budget))
		arrived, release := make(chan struct{}), make(chan struct{})
		var group sync.WaitGroup
		for range largeAtOnce {
			group.Go(func() {
				if answer := post(t, hook, slow(strings.Repeat("x", 2*large), arrived, release)); answer.Code != http.StatusOK {
					t.Errorf("one that has its turn: %d %s", answer.Code, answer.Body)
				}
			})
		}
		for range largeAtOnce {
			<-arrived
		}
		if answer := post(t, hook, strings.NewReader(reviewOfAService)); answer.Code != http.StatusOK {
			t.Errorf("an ordinary one: %d %s", answer.Code, answer.Body)
		}
		ctx, cancel := context.WithTimeout(t.Context(), Budget/8)
		defer cancel()
		late := httptest.NewRecorder()
		hook.ServeHTTP(late, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", slow(strings.Repeat("x", 2*large), arrived, release)))
		if late.Code != http.StatusServiceUnavailable || !strings.Contains(late.Body.String(), "busy") {
			t.Errorf("one too many: %d %s", late.Code, late.Body)
		}
		close(release)
		group.Wait()
		if answer := post(t, hook, strings.NewReader(strings.Repeat(" ", 2*large)+reviewOfAService)); answer.Code != http.StatusOK {
			t.Errorf("afterwards: %d %s", answer.Code, answer.Body)
		}
	})
}

// slow is a review with a text in it, which stands still until it is released, and tells when it
// does.
func slow(text string, arrived chan<- struct{}, release <-chan struct{}) io.Reader {
	head, tail, _ := strings.Cut(reviewOfAService, `"kind":"Service"`)
	return io.MultiReader(strings.NewReader(head+`"x":"`+text), still(arrived, release), strings.NewReader(`","kind":"Service"`+tail))
}

// still is a place at which a reader stands still.
func still(arrived chan<- struct{}, release <-chan struct{}) io.Reader {
	return readerFunc(func([]byte) (int, error) {
		arrived <- struct{}{}
		<-release
		return 0, io.EOF
	})
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// What 300 requests at once hold, each with a name of 2.4 MiB, does not depend on their size: those
// whose turn it is have all but the end of their names behind them.
func TestWhatManyReviewsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 300
		name := strings.Repeat("n", 2400<<10)
		release, arrived := make(chan struct{}), make(chan struct{})
		hook := creations(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }, NewRoom(Budget))
		var wait, read sync.WaitGroup
		read.Add(requests)
		before := alone.Heap()
		for range requests {
			wait.Go(func() {
				some := sync.OnceFunc(read.Done)
				seen := readerFunc(func([]byte) (int, error) { some(); return 0, io.EOF })
				body := io.MultiReader(strings.NewReader(`{"request":{"name":"`+name[:large/2]), seen, strings.NewReader(name), still(arrived, release), strings.NewReader(`"}}`))
				post(t, hook, body)
			})
		}
		read.Wait()
		for range largeAtOnce {
			<-arrived
		}
		held := alone.Heap() - before
		go func() {
			for range arrived { // those that wait get their turn, and say so
			}
		}()
		close(release)
		wait.Wait()
		close(arrived)
		t.Logf("%d requests hold %d KiB", requests, held>>10)
		if most := requests * 4 * chunk; held > most {
			t.Errorf("%d requests hold %d KiB, want %d at most", requests, held>>10, most>>10)
		}
	})
}

// BenchmarkReading measures what it costs to read a review, from its bytes to the handler.
func BenchmarkReading(b *testing.B) {
	hook := creations(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }, NewRoom(Budget))
	condition := `{"type":"","status":"","lastTransitionTime":null,"reason":"","message":""},`
	for name, fill := range map[string]string{
		"1,573,000 conditions": `"status":{"conditions":[` + strings.Repeat(condition, 1573000) + `{}]},`,
		"44,000 ports":         `"spec":{"ports":[` + strings.Repeat(`{"name":"p12345","protocol":"TCP","port":12345,"targetPort":12345},`, 44000) + `{}]},`,
		"control characters":   `"data":"` + strings.Repeat(`\u0001`, 3<<20) + `",`,
	} {
		body := strings.Replace(reviewOfAService, `"kind":"Service"`, fill+`"kind":"Service"`, 1)
		b.Run(fmt.Sprintf("of=%s", name), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if answer := post(b, hook, strings.NewReader(body)); answer.Code != http.StatusOK {
					b.Fatal(answer.Code)
				}
			}
		})
	}
}
