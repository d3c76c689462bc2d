package console_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// crowd is how many ServiceCIDRs of two ranges there are besides.
const crowd = 500

func crowdName(i int) string { return fmt.Sprintf("z-%03d", i) }

// createCrowd creates them from several clients at once.
func createCrowd(ctx context.Context) {
	GinkgoHelper()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range crowd {
		object := framework.NewServiceCIDR(crowdName(i), fmt.Sprintf("10.%d.%d.0/24", 210+i>>8, i&255), fmt.Sprintf("fd00:210:%x::/120", i+1))
		group.Go(func() error {
			_, err := c.Networking().ServiceCIDRs().Create(ctx, object, metav1.CreateOptions{})
			return err
		})
	}
	Expect(group.Wait()).To(Succeed())
}

func otherTheme(theme string) string {
	if theme == "dark" {
		return "light"
	}
	return "dark"
}

// atMost is how many rows of a table are in the page, however many it has.
const atMost = 80

// shown is what is said above a table: how many rows there are, and how many of them are shown.
func shown(b *window) string {
	GinkgoHelper()
	return value[string](b, "document.querySelector('main output')?.value ?? ''")
}

// inPage counts the rows in the page.
func inPage(b *window) int {
	GinkgoHelper()
	return value[int](b, "document.querySelectorAll('tr.row').length")
}

// act is something that a user does: how it is done in the page, and what it is called.
type act struct{ script, what string }

// typed is a text in the element of a selector, chosen one of its options.
func typed(selector, text string) act  { return set(selector, text, "input") }
func chosen(selector, text string) act { return set(selector, text, "change") }

func set(selector, text, event string) act {
	return act{fmt.Sprintf("const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event(%q))", selector, text, event), fmt.Sprintf("%q in %s", text, selector)}
}

// clicked is a click on the head of a column.
func clicked(column string) act {
	return act{fmt.Sprintf("[...document.querySelectorAll('thead button')].find(b => b.innerText === %q).click()", column), "a click on " + column}
}

// answersTo is how many milliseconds an act takes until the next picture is painted.
func answersTo(b *window, a act) float64 {
	GinkgoHelper()
	return value[float64](b, fmt.Sprintf(`(async () => {
		const begin = performance.now(); { %s }
		await new Promise(done => requestAnimationFrame(() => setTimeout(done)))
		return performance.now() - begin
	})()`, a.script))
}

// reportTimes has acts made in turns, and reports the median of five of each, in milliseconds. It
// judges none: how fast a page answers is a matter of the machine.
func reportTimes(b *window, acts ...act) {
	GinkgoHelper()
	times := make([][]float64, len(acts))
	for range 5 {
		for i, one := range acts {
			times[i] = append(times[i], answersTo(b, one))
		}
	}
	for i, one := range acts {
		AddReportEntry(one.what, fmt.Sprintf("%.0f ms", median(times[i])))
	}
}

func median(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// resize has the window be of a width.
func (b *window) resize(width int64) {
	GinkgoHelper()
	b.do(emulation.SetDeviceMetricsOverride(width, 900, 1, false))
	Eventually(func() int64 { return value[int64](b, "innerWidth") }).Should(Equal(width))
}

// views are all of the page.
var views = []string{"ranges", "addresses", "map/10.96.0.0/12", "policies", "refusals", "renumberings", "findings", "health", "why/service/blue/web"}

// fits opens a view, and expects that nothing of it is beside the window.
func fits(b *window, view string, width int64) (name, what string) {
	GinkgoHelper()
	b.open(view)
	name, _, _ = strings.Cut(view, "/")
	what = fmt.Sprintf("%s at %d", name, width)
	eventually(func() string { return b.text("main > *") }).ShouldNot(Or(BeEmpty(), ContainSubstring("Reading …")), what)
	Expect(value[int64](b, "Math.max(...[...document.querySelectorAll('html, main, .rows')].map(e => innerWidth + e.scrollWidth - e.clientWidth))")).To(BeNumerically("<=", width), what)
	return name, what
}

var _ = Describe("console of a thousand ranges and ten thousand Services", Ordered, Label("long"), func() {
	var b *window

	BeforeAll(func(ctx SpecContext) {
		createCrowd(ctx)
		b = newWindow()
		b.open("ranges")
		// kubernetes, team and the crowd have two ranges each.
		eventually(func() string { return shown(b) }).Should(Equal(strconv.Itoa(2 * (crowd + 2))))
	})
	AfterAll(func(ctx SpecContext) {
		for i := range crowd {
			c.DeleteServiceCIDRs(ctx, crowdName(i))
		}
	})
	AfterEach(func() { Expect(b.complaints()).To(BeEmpty(), "the browser's console") })

	It("paints, and has in the page what can be seen", func() {
		var times []float64
		for range 5 {
			b.do(chromedp.Reload())
			var ms float64
			b.do(chromedp.Poll("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0", &ms))
			times = append(times, ms)
		}
		AddReportEntry("first contentful paint", fmt.Sprintf("%.0f ms", median(times)))
		eventually(func() string { return shown(b) }).Should(Equal(strconv.Itoa(2 * (crowd + 2))))
		Expect(inPage(b)).To(And(BeNumerically(">", 10), BeNumerically("<", atMost)))
	})

	It("knows where each row is, whichever is open", func() {
		// The oracle adds up the heights of all rows.
		Expect(value[[]string](b, `import('./window.js').then(({ at, gaps, offset, visible, whole }) => {
			const wrong = [], layouts = [[0, -1], [1, -1], [1, 0], [50, -1], [50, 0], [50, 20], [50, 49]]
			for (const [count, open] of layouts) {
				const l = { count, open, height: 30, details: open < 0 ? 0 : 400 }
				const tall = i => 30 + (i === open ? 400 : 0), sum = n => Array.from({ length: n }, (_, i) => tall(i)).reduce((a, b) => a + b, 0)
				if (whole(l) !== sum(count)) wrong.push('whole ' + [count, open])
				for (let i = 0; i < count; i++) if (offset(l, i) !== sum(i)) wrong.push('offset ' + [count, open, i])
				for (let y = 0; y < sum(count); y += 7) {
					const i = at(l, y)
					if (y < sum(i) || y >= sum(i + 1)) wrong.push('at ' + [count, open, y, i])
					const rows = visible(l, y, y + 100, [open, 3], 2), before = gaps(l, rows)
					for (let j = 0; j < count; j++) if (sum(j + 1) > y && sum(j) <= y + 100 && !rows.includes(j)) wrong.push('hidden ' + [count, open, y, j])
					const total = rows.reduce((n, j, k) => n + before[k] + tall(j), 0) + before.at(-1)
					if (total !== sum(count) || before.some(g => g < 0)) wrong.push('gaps ' + [count, open, y])
				}
			}
			return wrong
		})`)).To(BeEmpty())
	})

	It("finds ranges by search, filter and order", func() {
		b.shortcut("/")
		b.press("z-4")
		eventually(func() string { return shown(b) }).Should(Equal("200 of 1004"))
		tabInto(b, "[data-filter=family]")
		b.press(kb.End) // the last of them is IPv6
		Expect(shown(b)).To(Equal("100 of 1004"))
		first := func() string { return value[string](b, "document.querySelector('tr.row').cells[1].innerText") }
		Expect(first()).To(Equal("z-400"))
		rowTo(b, "z-400 fd00:210:191::/120")
		b.press(kb.ArrowUp, kb.ArrowRight, kb.Enter, kb.Enter) // the head; ServiceCIDR; up, down
		Expect(value[string](b, "document.querySelectorAll('th[role=columnheader]')[1].ariaSort")).To(Equal("descending"))
		Expect(first()).To(Equal("z-499"))
		b.open("policies")
		eventually(func() string { return b.text("clusterip-policies tr.row") }).ShouldNot(BeEmpty())
		b.open("ranges")
		eventually(func() string { return shown(b) }).Should(Equal("100 of 1004"), "they stay while another view is open")
		b.do(chromedp.Reload())
		eventually(func() string { return shown(b) }).Should(Equal("1004"))
		reportTimes(b, typed("[data-search]", "z-1"), typed("[data-search]", "fd00:210"), typed("[data-search]", "z-499 ipv"), typed("[data-search]", ""),
			chosen("[data-filter=family]", "IPv6"), chosen("[data-filter=family]", "IPv4"), chosen("[data-filter=family]", ""),
			clicked("Used"), clicked("ServiceCIDR"), clicked("Range"))
	})

	It("lists the addresses, by range, namespace and parent", func(ctx SpecContext) {
		b.open("addresses")
		all := len(c.IPAddresses(ctx))
		eventually(func() string { return shown(b) }).Should(Equal(strconv.Itoa(all)))
		Expect(inPage(b)).To(And(BeNumerically(">", 10), BeNumerically("<", atMost)))
		reportTimes(b, typed("[data-search]", "s"), typed("[data-search]", "service-0012"), typed("[data-search]", "10.96 default"), typed("[data-search]", "none of them"), typed("[data-search]", ""),
			typed("[data-filter=namespace]", "blue"), typed("[data-filter=namespace]", ""), chosen("[data-filter=state]", "allocated"), chosen("[data-filter=state]", ""),
			clicked("Parent"), clicked("Age"), clicked("Address"))
		b.do(chromedp.Reload())
		for address, n := range map[string]int{
			"range=team":     inUse(ctx, "10.200.0.0/25") + inUse(ctx, "fd00:200::/121") + len(c.KeptBy(ctx, "blue")),
			"namespace=blue": inUse(ctx, "10.200.0.0/25") + inUse(ctx, "fd00:200::/121"), "parent=blue/web": 2, "parent=" + cluster.Namespace + "/" + cluster.StockName(17): 2,
			"range=team&state=reserved": 16,
		} {
			b.open("addresses/" + address)
			eventually(func() string { return shown(b) }).Should(Equal(fmt.Sprintf("%d of %d", n, all)), address)
		}
		b.open("addresses/parent=blue/web")
		eventually(func() string { return b.text("tr.row") }).Should(cluster.ContainAll("service/blue/web", "team", "blue"))
	})

	DescribeTable("keeps focus, open rows, the skip link and the theme while the cluster changes, and goes by the keyboard alone", func(ctx SpecContext, width int64) {
		b.resize(width)
		DeferCleanup(func() { b.do(emulation.ClearDeviceMetricsOverride()) })
		theme := func() string { return value[string](b, "document.documentElement.dataset.theme ?? 'light'") }
		b.open("ranges")
		b.do(chromedp.Reload())
		eventually(func() string { return shown(b) }).Should(Equal("1004"))
		other := otherTheme(theme())
		tabInto(b, "#theme")
		b.press(kb.Enter)
		Expect(theme()).To(Equal(other))
		b.do(chromedp.Reload())
		eventually(theme).Should(Equal(other), "it is kept")
		eventually(func() string { return shown(b) }).Should(Equal("1004"))
		b.press(kb.Tab)
		Expect(value[string](b, "document.activeElement.className")).To(Equal("skip"))
		b.press(kb.Enter)
		Expect(value[string](b, "document.activeElement.id + location.hash")).To(Equal("main#ranges"))
		tabInto(b, "[data-filter=family]")
		b.press(kb.End)
		eventually(func() string { return shown(b) }).Should(Equal("502 of 1004"), "IPv6")
		b.press(kb.Home)
		eventually(func() string { return shown(b) }).Should(Equal("1004"))
		rowTo(b, "team 10.200.0.0/25")
		b.press(kb.Enter)
		eventually(func() string { return b.text("clusterip-curve .u-legend") }).Should(ContainSubstring("in use"))
		before := b.text("tr[data-range='10.200.0.0/25']")
		b.do(chromedp.Evaluate("document.activeElement.mine = true", nil))
		Expect(c.Create(ctx, cluster.Dual("blue", "focus")).Spec.ClusterIPs[0]).To(HavePrefix("10.200.0."), "the webhook has drawn it")
		eventually(func() string { return b.text("tr[data-range='10.200.0.0/25']") }).ShouldNot(Equal(before))
		Expect(value[bool](b, "document.activeElement.mine === true && document.activeElement.ariaExpanded === 'true'")).To(BeTrue(), "the button that had the focus has it")
		b.do(chromedp.KeyEvent(kb.End, chromedp.KeyModifiers(input.ModifierCtrl)))
		Expect(value[string](b, "document.activeElement.closest('tr').ariaRowIndex")).To(Equal("1005"), "the head is the first row")
		Expect(inPage(b)).To(BeNumerically("<", atMost))
		b.press(kb.PageUp)
		Expect(value[int](b, "Number(document.activeElement.closest('tr').ariaRowIndex)")).To(And(BeNumerically("<", 1005), BeNumerically(">", 950)))
		b.press(kb.Escape)
		Expect(value[string](b, "document.activeElement.dataset.key + document.activeElement.ariaExpanded")).To(Equal("team 10.200.0.0/25false"))
		Expect(c.Client().CoreV1().Services("blue").Delete(ctx, "focus", metav1.DeleteOptions{})).To(Succeed())
	},
		Entry("400 pixels wide", int64(400)),
		Entry("1280 pixels wide", int64(1280)),
		Entry("1920 pixels wide", int64(1920)),
	)

	It("shows what a tenant is refused, and renumberings in progress", func(ctx SpecContext) {
		c.CreateNamespace(ctx, "red", nil)
		c.ExpectRefused(ctx, "blue", cluster.Asking("red", "intruder", "10.200.0.120"))
		c.ExpectRefused(ctx, "blue", cluster.Asking("red", "intruder", "fd00:200::78"))
		b.open("refusals/namespace=red")
		eventually(func() string { return b.text("clusterip-refusals tr.row") }).Should(cluster.ContainAll("red/intruder", "blue"))
		b.open("refusals/namespace=blue")
		eventually(func() string { return shown(b) }).Should(HavePrefix("0 of "), "refusals of a tenant")
		held := c.Create(ctx, cluster.Dual("blue", "moving")).Spec.ClusterIPs[0]
		c.PatchIPAddress(ctx, held, `{"metadata":{"finalizers":["clusterip-operator.io/former-address"]}}`)
		b.open("renumberings")
		eventually(func() string { return b.text("clusterip-renumberings tr.row") }).Should(cluster.ContainAll("blue/moving", "Waiting", held))
		c.PatchIPAddress(ctx, held, `{"metadata":{"finalizers":null}}`)
		eventually(func() string { return b.text("clusterip-renumberings .empty") }).Should(ContainSubstring("none"))
		Expect(c.Client().CoreV1().Services("blue").Delete(ctx, "moving", metav1.DeleteOptions{})).To(Succeed())
	})

	It("suggests what can be asked about", func() {
		b.open("why")
		tabTo(b, "subject")
		b.press("service/bl")
		eventually(func() string { return b.text("#suggestions") }).Should(Equal("service/blue/"))
		b.press(kb.ArrowDown, kb.Enter)
		eventually(func() string { return b.text("#suggestions") }).Should(cluster.ContainAll("service/blue/web", "service/blue/shop"))
		b.press("we")
		eventually(func() string { return b.text("#suggestions") }).Should(Equal("service/blue/web"))
		b.press(kb.ArrowDown)
		Expect(value[string](b, "document.getElementById(document.querySelector('#subject').getAttribute('aria-activedescendant')).innerText")).To(Equal("service/blue/web"))
		b.press(kb.Enter)
		eventually(func() string { return b.text("clusterip-why pre") }).Should(ContainSubstring("is the ClusterIP of Service blue/web"))
		Expect(b.text("#suggestions")).To(BeEmpty())
	})

	It("fits windows of 400, 1280 and 1920 pixels", func() {
		b.open("ranges")
		b.do(chromedp.Reload()) // without the filters of other specs
		for _, width := range []int64{400, 1280, 1920} {
			b.resize(width)
			for _, view := range views {
				name, what := fits(b, view, width)
				if name == "ranges" {
					rowTo(b, "team 10.200.0.0/25")
					b.press(kb.Enter)
					eventually(func() string { return b.text("clusterip-curve .u-legend") }).ShouldNot(BeEmpty(), what)
					Expect(value[[]string](b, fmt.Sprintf(`[...document.querySelector("tr[data-range='10.200.0.0/25']").cells]
						.filter(c => ['Used', 'Free', 'Reserved', 'Cooling', 'Full in', 'Ready'].includes(c.dataset.title))
						.filter(c => c.scrollWidth > c.clientWidth || c.getBoundingClientRect().right > %d || c.offsetHeight < 10).map(c => c.dataset.title)`, width))).To(BeEmpty(), "numbers that cannot be seen at %d", width)
				}
				b.picture(fmt.Sprintf("%s-%d", name, width), "light")
				if name == "ranges" && width == 400 {
					rowTo(b, "team 10.200.0.0/25")
					b.press(strings.Repeat(kb.ArrowRight, 12))
					Expect(value[string](b, "document.activeElement.dataset.title")).To(Equal("Ready"), "the last column that a narrow window has")
				}
				if name == "ranges" {
					b.press(kb.Escape)
					Expect(b.text("clusterip-curve")).To(BeEmpty(), "the row is closed")
				}
			}
		}
		b.do(emulation.ClearDeviceMetricsOverride())
	})
})
