package console_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework/browser"
)

// window is one of a browser. Its methods fail the spec.
type window struct {
	ctx context.Context

	mu     sync.Mutex
	errors []string // what its console says of errors
}

// newWindow starts a browser of its own, which ends with the calling node.
func newWindow() *window {
	GinkgoHelper()
	ctx, stop, err := browser.Start(context.Background())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stop)
	b := &window{ctx: ctx}
	chromedp.ListenTarget(ctx, b.hear)
	return b
}

// hear notes errors.
func (b *window) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			b.errors = append(b.errors, fmt.Sprint(e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError {
			b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// complaints are the errors so far.
func (b *window) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.errors...)
}

func (b *window) do(actions ...chromedp.Action) {
	GinkgoHelper()
	Expect(chromedp.Run(b.ctx, actions...)).To(Succeed())
}

// open opens a view.
func (b *window) open(view string) {
	GinkgoHelper()
	b.do(chromedp.Navigate(address + "#" + view))
}

// press presses keys, as a user without a mouse.
func (b *window) press(keys ...string) {
	GinkgoHelper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// shortcut presses a key whose character is not typed where the page takes the key for itself:
// chromedp sends the character in any case.
func (b *window) shortcut(key string) {
	GinkgoHelper()
	b.do(input.DispatchKeyEvent(input.KeyDown).WithKey(key).WithText(key), input.DispatchKeyEvent(input.KeyUp).WithKey(key))
}

// value is what an expression says in the page, also one that promises it; T is what JSON makes of
// it.
func value[T any](b *window, expression string) (v T) {
	GinkgoHelper()
	b.do(chromedp.Evaluate(expression, &v, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return v
}

// text is what an element shows, empty without one.
func (b *window) text(selector string) string {
	GinkgoHelper()
	return value[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// picture takes a picture of the window, in one of the themes.
func (b *window) picture(name, theme string) {
	GinkgoHelper()
	var png []byte
	b.do(chromedp.Evaluate(fmt.Sprintf("while (document.documentElement.dataset.theme !== %q) document.querySelector('#theme').click()", theme), nil))
	Eventually(func() string { return value[string](b, "document.documentElement.dataset.theme") }).Should(Equal(theme))
	b.do(chromedp.CaptureScreenshot(&png))
	Expect(len(png)).To(BeNumerically(">", 10_000), "an empty window makes a smaller picture")
	keep(name+"-"+theme, png)
}

// eventually waits until what is on the screen is so.
func eventually[T any](get func() T) AsyncAssertion { return Eventually(get).WithTimeout(patience) }
