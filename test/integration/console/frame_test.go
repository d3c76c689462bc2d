package console_test

import (
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

var _ = Describe("the frame of the console's page", Ordered, func() {
	var b *window

	// run runs statements in the page.
	run := func(script string) {
		GinkgoHelper()
		b.do(chromedp.Evaluate("(() => {"+script+"})()", nil))
	}
	rows := func(view string) AsyncAssertion {
		return eventually(func() string { return b.text("clusterip-" + view + " tr.row") })
	}

	BeforeAll(func() {
		b = newWindow()
		b.open("ranges")
		rows("ranges").ShouldNot(BeEmpty())
		// What the page asks passes by a spec, which may answer in the console's place. What is said of
		// troubles is noted: a text may be gone before a spec looks.
		run(`window.asked = []
			window.told = []
			const fetch = window.fetch
			window.fetch = (path, options) => {
				asked.push(path)
				return window.meddle?.(path, options) ?? fetch(path, options)
			}
			const trouble = document.querySelector('#trouble')
			new MutationObserver(() => told.push(trouble.textContent)).observe(trouble, { childList: true })`)
	})
	AfterEach(func() { Expect(b.complaints()).To(BeEmpty(), "the browser's console") })

	It("takes its questions back when the user goes on", func() {
		run(`window.meddle = (path, { signal }) => path === 'api/addresses' ? new Promise((_, fail) => {
			signal?.addEventListener('abort', () => {
				window.back = path
				fail(signal.reason)
			})
		}) : undefined`)
		b.open("addresses")
		eventually(func() string { return value[string](b, "asked.join()") }).Should(ContainSubstring("api/addresses"))
		b.open("policies")
		eventually(func() string { return value[string](b, "window.back ?? ''") }).Should(Equal("api/addresses"))
		rows("policies").ShouldNot(BeEmpty())
		run("delete window.meddle")
		Expect(value[string](b, "told.join()")).To(BeEmpty(), "nothing is wrong")
	})

	It("takes back what is asked while one types, and about an address of the map", func() {
		run(`window.back = []
			window.meddle = (path, { signal }) => /^api\/(suggestions|why)/.test(path) ? new Promise((_, fail) => {
				signal.addEventListener('abort', () => {
					back.push(path)
					fail(signal.reason)
				})
			}) : undefined`)
		back := func() AsyncAssertion { return eventually(func() []string { return value[[]string](b, "window.back") }) }
		b.open("why")
		tabTo(b, "subject")
		b.press("a")
		eventually(func() string { return value[string](b, "asked.at(-1)") }).Should(HaveSuffix("suggestions?text=a"))
		b.press("b")
		back().Should(Equal([]string{"api/suggestions?text=a"}), "another key")
		b.open("map/10.96.0.0/24")
		eventually(func() string { return b.text("clusterip-map h2") }).Should(Equal("Map of 10.96.0.0/24"))
		back().Should(Equal([]string{"api/suggestions?text=a", "api/suggestions?text=ab"}), "the view is left")
		run("back.length = 0")
		tabTo(b, "map")
		b.press(kb.Enter)
		eventually(func() string { return value[string](b, "asked.at(-1)") }).Should(HaveSuffix("why?subject=10.96.0.0"))
		b.press(kb.ArrowRight, kb.Enter)
		back().Should(Equal([]string{"api/why?subject=10.96.0.0"}), "another address")
		b.open("map/10.96.1.0/24")
		back().Should(HaveLen(2), "another part of the map")
		eventually(func() string { return b.text("clusterip-map h2") }).Should(Equal("Map of 10.96.1.0/24"))
		tabTo(b, "map")
		b.press(kb.Enter)
		eventually(func() string { return value[string](b, "asked.at(-1)") }).Should(HaveSuffix("why?subject=10.96.1.0"))
		b.open("policies")
		back().Should(HaveLen(3), "another view")
		rows("policies").ShouldNot(BeEmpty())
		run("delete window.meddle")
	})

	// What is typed last is answered after the user has chosen from what was found before.
	It("keeps what the user has chosen when an answer comes late", func() {
		b.open("why")
		tabTo(b, "subject")
		b.press("policy")
		eventually(func() string { return b.text("#suggestions") }).Should(ContainSubstring("policy/blue"))
		run(`window.meddle = path => path.endsWith('text=policy%2F') ? new Promise(answer => {
			window.answer = () => answer(new Response('["policy/late"]'))
		}) : undefined`)
		b.press("/")
		eventually(func() bool { return value[bool](b, "window.answer !== undefined") }).Should(BeTrue())
		b.press(kb.ArrowDown)
		run("answer()")
		Consistently(func() string { return b.text("#suggestions [aria-selected=true]") }).WithTimeout(500 * time.Millisecond).Should(Equal("policy/blue"))
		b.press(kb.Enter)
		eventually(func() string { return b.text("clusterip-why pre") }).Should(ContainSubstring("it has 10.200.0.0/25 of ServiceCIDR team"))
		run("delete window.meddle")
	})

	It("has an answer that it could not show come again, and does not say that the console has ended", func() {
		b.open("ranges")
		rows("ranges").ShouldNot(BeEmpty())
		run(`const view = customElements.get('clusterip-policies').prototype, update = view.update
			view.update = () => {
				view.update = update
				throw new TypeError('too much')
			}`)
		b.open("policies")
		rows("policies").ShouldNot(BeEmpty())
		eventually(func() string { return b.text("#trouble") }).Should(BeEmpty())
		Expect(value[string](b, "told.join()")).To(And(ContainSubstring("too much"), Not(ContainSubstring("has ended"))))
	})

	DescribeTable("says that the console has ended", func(script string) {
		b.open("ranges")
		rows("ranges").ShouldNot(BeEmpty())
		run("window.meddle = () => " + script)
		eventually(func() string { return b.text("#trouble") }).Should(ContainSubstring("`kubectl clusterip console` has ended"))
		Expect(b.text("clusterip-ranges tr.row")).NotTo(BeEmpty(), "what was last known stays")
		run("delete window.meddle")
		eventually(func() string { return b.text("#trouble") }).Should(BeEmpty())
	},
		Entry("when it does not answer", "Promise.reject(new TypeError('Failed to fetch'))"),
		Entry("when it ends in the middle of an answer", "new Response(new ReadableStream({ start: c => c.error(new TypeError('network error')) }))"),
		Entry("when another one has its port", "new Response('', { status: 403 })"),
	)

	It("takes from the address what names a filter, in a view that is open too", func() {
		filters := func() string {
			return value[string](b, "JSON.stringify(document.querySelector('clusterip-addresses')?.grid?.state.filters ?? null)")
		}
		b.open("addresses/namespace=blue&stranger=1")
		eventually(filters).Should(Equal(`{"namespace":"blue"}`))
		b.open("addresses/range=team&stranger=2")
		eventually(filters).Should(Equal(`{"range":"team"}`))
		rows("addresses").Should(cluster.ContainAll("team"))
	})
})
