package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// inUse counts the IPAddresses of a range that are not ours, as the API server has them.
func inUse(ctx context.Context, cidr string) (n int) {
	GinkgoHelper()
	p := netip.MustParsePrefix(cidr)
	for _, ip := range c.IPAddresses(ctx) {
		if p.Contains(netip.MustParseAddr(ip.Name)) && ip.Labels["ipaddress.kubernetes.io/managed-by"] == framework.ManagedByUpstream {
			n++
		}
	}
	return n
}

var _ = Describe("console", Ordered, func() {
	var b *window

	BeforeAll(func() { b = newWindow() })
	AfterEach(func() { Expect(b.complaints()).To(BeEmpty(), "the browser's console") })

	It("shows the ranges as the API server has them", func(ctx SpecContext) {
		b.open("ranges")
		for _, cidr := range []string{"10.96.0.0/12", "fd00:10:96::/108", "10.200.0.0/25", "fd00:200::/121"} {
			n := inUse(ctx, cidr)
			eventually(func() string { return b.text("tr[data-range='" + cidr + "']") }).Should(ContainSubstring(fmt.Sprintf("\t%d (", n)), cidr)
		}
		for _, cidr := range []string{"10.200.0.0/25", "fd00:200::/121"} {
			Expect(b.text("tr[data-range='"+cidr+"']")).To(ContainSubstring("\t2 (1 %)\t"), "2 of 126 or 127: what is reserved or cools down is not used")
			Expect(value[string](b, "document.querySelector(\"tr[data-range='"+cidr+"'] .bar\").ariaLabel")).To(Equal("1 % in use"))
		}
		Expect(b.text("tr[data-range='10.200.0.0/25']")).To(cluster.ContainAll("team", "\t16\t", "blue (exclusive)", "True"), "16 are reserved")
		Expect(b.text("tr[data-range='10.96.0.0/12']")).To(ContainSubstring("kubernetes"))
		Expect(b.text("#cluster")).To(ContainSubstring("v1.37"))
		b.do(chromedp.Click("tr[data-range='10.200.0.0/25'] td", chromedp.ByQuery))
		Eventually(func() int { return value[int](b, "document.querySelectorAll('clusterip-ranges .uplot canvas').length") }).WithTimeout(patience).Should(Equal(1), "the use over time is drawn")
		Expect(value[string](b, "document.querySelector('tr.details').previousElementSibling.dataset.range")).To(Equal("10.200.0.0/25"), "where the user looks")
		now := "document.querySelector('clusterip-curve')?.points?.at(-1)?.[1] ?? -1"
		eventually(func() int { return value[int](b, now) }).Should(Equal(2), "the curve ends with what is in use: 16 addresses are reserved, and one cools down")
		b.do(chromedp.Click("tr[data-range='fd00:200::/121'] td", chromedp.ByQuery))
		eventually(func() string { return b.text("clusterip-ranges h3") }).Should(HavePrefix("fd00:200::/121: "))
		eventually(func() int { return value[int](b, now) }).Should(Equal(2), "of IPv6 too")
	})

	It("counts as used what Services have, and as left what cools down too", func() {
		// Of each: used, the bar's words, when it is full, and which of the choices "only" take it.
		script := `(() => {
			const { columns, filters } = customElements.get('clusterip-ranges').grid
			const column = title => columns.find(c => c.title === title), only = filters.find(f => f.name === 'only')
			const says = r => [column('Used').text(r), column('In use').cell(r).ariaLabel, column('In use').sort(r), column('Full in').text(r), column('Full in').cell(r).className,
				only.values(r).filter(Boolean).join()].join('; ')
			const range = (dynamic, more) => says({ static: { size: 16, allocated: 0, free: 0, reserved: 16 }, dynamic: { size: 110, ...dynamic }, ready: true, troubles: [], ...more })
			return [
				range({ allocated: 2, free: 105, cooling: 3 }),
				range({ allocated: 107, free: 0, cooling: 3 }),
				range({ allocated: 110, free: 0 }, { fullInSeconds: 0 }),
				range({ allocated: 0, free: 0, reserved: 109, cooling: 1 }, { fullInSeconds: 3600 }),
				says({ static: { size: 0, allocated: 0, free: 0 }, dynamic: { size: 2 ** 63, allocated: 3, free: 2 ** 63 }, ready: true, troubles: [] }),
			]
		})()`
		b.open("ranges")
		eventually(func() string { return b.text("clusterip-ranges table") }).ShouldNot(BeEmpty())
		Expect(value[[]string](b, script)).To(Equal([]string{
			"2 (1 %); 1 % in use; 1; unknown; weak; ",
			"107 (84 %); 84 % in use; 84; unknown; weak; nearly",
			"110 (87 %); 87 % in use; 87; full; bad; nearly,full",
			"0 (0 %); 0 % in use; 0; 60m; bad; ",
			"3 (0 %); 0 % in use; 0; unknown; weak; ",
		}))
	})

	It("is used by the keyboard alone, down to a single address", func() {
		b.open("ranges")
		eventually(func() string { return b.text("clusterip-ranges table") }).ShouldNot(BeEmpty())
		b.press("3")
		eventually(func() string { return b.text("clusterip-map h2") }).Should(ContainSubstring("Map of"))
		b.open("map/10.96.0.0/12")
		eventually(func() string { return b.text("clusterip-map h2") }).Should(Equal("Map of 10.96.0.0/12"))
		tabTo(b, "map")
		eventually(func() string { return b.text("#cell") }).Should(HavePrefix("10.96.0.0/24: "))
		b.press(kb.ArrowRight)
		Expect(b.text("#cell")).To(HavePrefix("10.96.1.0/24: "))
		b.press(kb.ArrowDown, kb.ArrowLeft, kb.Home)
		b.press(kb.Enter)
		eventually(func() string { return b.text("clusterip-map h2") }).Should(Equal("Map of 10.96.0.0/24"))
		tabTo(b, "map")
		for range 10 {
			b.press(kb.ArrowRight)
		}
		Expect(b.text("#cell")).To(Equal("10.96.0.10: allocated"))
		b.press(kb.Enter)
		eventually(func() string { return b.text("clusterip-map pre") }).Should(ContainSubstring("10.96.0.10 is the ClusterIP of Service default/template"))
		b.picture("address", "dark")
		b.press(kb.Escape)
		eventually(func() string { return b.text("clusterip-map h2") }).Should(Equal("Map of 10.96.0.0/12"))

		b.press("4")
		eventually(func() string { return b.text("clusterip-policies") }).Should(cluster.ContainAll("blue", "tenant=blue", "10.200.0.0/25 (team)", "late"))
		for name, want := range map[string][]string{"blue": {"True", "16"}, "late": {"False", "0"}} {
			eventually(func() []string {
				return value[[]string](b, "[...document.querySelectorAll(\"tr[data-row='"+name+"'] td\")].filter(c => ['Ready', 'Reserved'].includes(c.dataset.title)).map(c => c.innerText)")
			}).Should(Equal(want), name)
		}
		b.picture("policies", "light")
		b.press("7")
		eventually(func() string { return b.text("clusterip-findings") }).Should(ContainSubstring("PolicyConflicting"))
		b.press("8")
		eventually(func() string { return b.text("clusterip-health") }).Should(ContainSubstring("leader"))
		b.press("9")
		eventually(func() string { return b.text("clusterip-why h2") }).Should(Equal("Why"))
		tabTo(b, "subject")
		b.press("policy/")
		eventually(func() string { return b.text("#suggestions") }).Should(cluster.ContainAll("policy/blue", "policy/late"))
		b.press(kb.ArrowDown, kb.Enter)
		eventually(func() string { return b.text("clusterip-why pre") }).Should(ContainSubstring("it has 10.200.0.0/25 of ServiceCIDR team"))
		b.do(chromedp.Evaluate("document.querySelector('#subject').select()", nil))
		b.press("service/blue/web", kb.Enter)
		eventually(func() string { return b.text("clusterip-why pre") }).Should(cluster.ContainAll("is the ClusterIP of Service blue/web", "policy blue"))
		b.picture("why", "light")
	})

	It("counts every cell of the map as the API server does", func(ctx SpecContext) {
		want := map[netip.Prefix]int{}
		for _, ip := range c.IPAddresses(ctx) {
			if a := netip.MustParseAddr(ip.Name); a.Is4() {
				want[netip.PrefixFrom(a, 24).Masked()]++
			}
		}
		b.open("map/10.96.0.0/12")
		eventually(func() string { return b.text("clusterip-map h2") }).Should(Equal("Map of 10.96.0.0/12"))
		// The words of each cell, as a user of the keyboard reads them.
		words := value[[]string](b, "(m => m.data.allocated.map((_, i) => m.words(i)))(document.querySelector('clusterip-map'))")
		Expect(words).To(HaveLen(4096))
		for _, text := range words {
			cidr, rest, _ := strings.Cut(text, ": ")
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			Expect(err).NotTo(HaveOccurred(), text)
			Expect(n).To(Equal(want[netip.MustParsePrefix(cidr)]), text)
		}
	})

	It("writes in front of the map's rows which address each begins with", func() {
		b.open("map/10.96.0.0/12")
		eventually(func() string { return b.text("clusterip-map h2") }).Should(Equal("Map of 10.96.0.0/12"))
		b.picture("map", "light")
		b.do(chromedp.Evaluate(`(proto => {
			const write = proto.fillText
			proto.fillText = function (text, x, y) {
				if (this.canvas.matches('.map')) (window.written ??= []).push([text, y])
				return write.apply(this, arguments)
			}
		})(CanvasRenderingContext2D.prototype)`, nil))
		for view, want := range map[string][]string{ // the first address of each row, by its place
			"10.96.0.0/12":     {0: "10.96.0.0", 2: "10.96.128.0", 4: "10.97.0.0", 62: "10.111.128.0"},
			"10.96.0.0/24":     {0: "10.96.0.0", 1: "10.96.0.16", 15: "10.96.0.240"},
			"fd00:10:96::/108": {0: "fd00:10:96::", 2: "fd00:10:96::8000", 4: "fd00:10:96::1:0", 62: "fd00:10:96::f:8000"},
		} {
			b.open("map/" + view)
			eventually(func() string { return b.text("clusterip-map h2") }).Should(Equal("Map of " + view))
			drawn := value[struct { // by one statement: the page draws again when there is news
				Rows  map[int]string
				Lines []float64
			}](b, `(m => {
				window.written = []
				m.draw()
				return {Rows: Object.fromEntries(written.map(([text, y]) => [Math.floor(y / m.side), text])), Lines: written.map(([, y]) => y)}
			})(document.querySelector('clusterip-map'))`)
			for row, text := range want {
				if text != "" {
					Expect(drawn.Rows).To(HaveKeyWithValue(row, text), view)
				}
			}
			for i := range drawn.Lines[1:] {
				Expect(drawn.Lines[i+1]-drawn.Lines[i]).To(BeNumerically(">=", 11), "a line over another one")
			}
		}
	})

	It("draws IPv6 down to a single address too", func() {
		b.open("map/fd00:10:96::/108")
		eventually(func() string { return b.text("#cell") }).Should(HavePrefix("fd00:10:96::/120: "))
		b.open("map/fd00:10:96::/120")
		eventually(func() string { return cellText(b, 16) }).Should(Equal("fd00:10:96::10: allocated"))
	})

	It("follows the cluster, in two browsers at once", func(ctx SpecContext) {
		other := newWindow()
		for _, each := range []*window{b, other} {
			each.open("ranges")
			eventually(func() string { return each.text("tr[data-range='10.200.0.0/25']") }).Should(ContainSubstring("\t2 ("))
		}
		c.Create(ctx, cluster.Dual("blue", "new"))
		for _, each := range []*window{b, other} {
			eventually(func() string { return each.text("tr[data-range='10.200.0.0/25']") }).Should(ContainSubstring("\t3 ("))
			eventually(func() string { return each.text("tr[data-range='fd00:200::/121']") }).Should(ContainSubstring("\t3 ("))
		}
		Expect(other.complaints()).To(BeEmpty())
	})

	It("shows what is wrong, and text of the cluster as text", Label("long"), func(ctx SpecContext) {
		lost := c.Create(ctx, cluster.Dual("blue", "lost")).Spec.ClusterIPs
		c.StopReplicas()
		c.DeleteIPAddress(ctx, lost[0])
		c.DeleteIPAddress(ctx, lost[1])
		const evil = "<img src=x onerror=\"document.title='owned'\">"
		c.Kubectl(ctx, "patch", "servicecidr", "team", "--subresource=status", "--type=json", "-p",
			`[{"op":"add","path":"/status/conditions/-","value":{"type":"clusterip-operator.io/NearlyFull","status":"True","reason":"R","message":`+strconv.Quote(evil)+`,"lastTransitionTime":"2026-01-01T00:00:00Z"}}]`)
		b.open("findings")
		eventually(func() string {
			for _, address := range lost { // the API server's repair, which runs every three minutes, may have written it
				_ = c.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
			}
			return b.text("clusterip-findings")
		}).Should(cluster.ContainAll("IPAddressMissing", "service/blue/lost", lost[0], lost[1], evil, "repair --from"))
		Expect(value[string](b, "document.title")).NotTo(Equal("owned"))
		b.picture("findings", "light")
		b.press("1")
		eventually(func() string { return b.text("clusterip-ranges") }).Should(cluster.ContainAll(evil, "NearlyFull is True"))
		b.open("map/10.200.0.0/25")
		cell := int(netip.MustParseAddr(lost[0]).As4()[3])
		eventually(func() string { return cellText(b, cell) }).Should(Equal(lost[0] + ": allocated; something is wrong"))
		b.picture("map-wrong", "dark")
		c.StartReplicas(ctx)
		eventually(func() string { return cellText(b, cell) }).Should(Equal(lost[0]+": allocated"), "the operator has mended it")
	})

	It("draws the use of a range over time, and how it goes on", Label("long"), func(ctx SpecContext) {
		c.StopReplicas()
		c.Kubectl(ctx, "annotate", "servicecidr", "kubernetes", "--overwrite",
			`clusterip-operator.io/usage={"ranges":[{"cidr":"10.96.0.0/12","static":{},"dynamic":{"growthPerDay":400}},{"cidr":"fd00:10:96::/108","static":{},"dynamic":{"growthPerDay":50000}}]}`)
		b.open("ranges")
		eventually(func() string { return b.text("tr[data-range='fd00:10:96::/108']") }).Should(ContainSubstring("\t20d\t"))
		eventually(func() string { return b.text("tr[data-range='10.96.0.0/12']") }).Should(ContainSubstring("\t7y\t"))
		rowTo(b, "kubernetes 10.96.0.0/12")
		b.press(kb.Enter)
		eventually(func() string { return b.text("clusterip-ranges h3") }).Should(HavePrefix("10.96.0.0/12: "))
		Eventually(func() int { return value[int](b, "document.querySelector('clusterip-curve')?.points?.length ?? 0") }).WithTimeout(patience).Should(BeNumerically(">", 90))
		curve := value[[][]float64](b, "document.querySelector('clusterip-curve').points")
		Expect(curve[len(curve)-1][1]).To(BeEquivalentTo(inUse(ctx, "10.96.0.0/12")))
		Expect(curve[len(curve)/2][1]).To(BeNumerically("~", services/2, services/20), "they came evenly")
		b.picture("ranges", "light")
		b.picture("ranges", "dark")

		c.CreateServiceCIDR(ctx, "fresh", "10.201.0.0/24") // no controller writes its status
		eventually(func() string { return b.text("tr[data-range='10.201.0.0/24']") }).Should(ContainSubstring("fresh"))
		rowTo(b, "fresh 10.201.0.0/24")
		b.press(kb.Enter)
		eventually(func() string { return b.text("clusterip-ranges h3") }).Should(HavePrefix("10.201.0.0/24: "))
		b.open("why/100%")
		eventually(func() string { return b.text("clusterip-why pre") }).Should(ContainSubstring(`"100%" is neither an address`))
		c.DeleteServiceCIDRs(ctx, "fresh")
		c.StartReplicas(ctx)
	})

	It("goes on when the API server was away", Label("long"), func(ctx SpecContext) {
		used := fmt.Sprintf("\t%d (", inUse(ctx, "10.200.0.0/25"))
		b.open("ranges")
		eventually(func() string { return b.text("tr[data-range='10.200.0.0/25']") }).Should(ContainSubstring(used))
		Expect(reader.Answers()).To(BeNumerically(">", 10))
		Expect(reader.Refused()).To(BeEmpty(), "so far; an API server that starts refuses until it has read the roles")
		Expect(c.API.Kill()).To(Succeed())
		eventually(func() string { return b.text("#trouble") }).Should(ContainSubstring("The API server does not answer"))
		Expect(b.text("tr[data-range='10.200.0.0/25']")).To(ContainSubstring(used), "what was last known stays")
		cluster.StartAgain(ctx, c.API)
		eventually(func() string { return b.text("#trouble") }).Should(BeEmpty())
		c.StartReplicas(ctx) // as a kubelet does: one whose lease could not be renewed for ten seconds has ended
		c.CreateServiceOnceFree(ctx, "after")
		n := inUse(ctx, "10.96.0.0/12")
		eventually(func() string { return b.text("tr[data-range='10.96.0.0/12']") }).Should(ContainSubstring(fmt.Sprintf("\t%d (", n)))
	})

	It("fits a window of 1280 pixels", func() {
		const width = 1280
		b.resize(width)
		defer b.do(emulation.ClearDeviceMetricsOverride())
		for _, view := range views {
			fits(b, view, width)
		}
	})

	It("is small", func() {
		transferred := func(view string) float64 {
			b.open(view)
			b.do(chromedp.Reload())
			eventually(func() string { return b.text("main table, main canvas + *") }).ShouldNot(BeEmpty())
			return value[float64](b, "performance.getEntries().filter(e => e.transferSize !== undefined && !e.name.includes('/api/')).reduce((n, e) => n + e.transferSize, 0)")
		}
		Expect(transferred("ranges")).To(And(BeNumerically(">", 50<<10), BeNumerically("<", 300<<10)), "the page")
		code, data := get(address+"api/map?cidr=10.96.0.0/12", nil)
		Expect(code).To(Equal(http.StatusOK))
		Expect(len(data)).To(And(BeNumerically(">", 8<<10), BeNumerically("<", 200<<10)), "the data of a /12")
	})
})

// cellText is what the map says of a cell.
func cellText(b *window, cell int) string {
	GinkgoHelper()
	return value[string](b, fmt.Sprintf("(m => m?.data ? m.words(%d) : '')(document.querySelector('clusterip-map'))", cell))
}

// tabTo presses Tab until the element of a key has the focus.
func tabTo(b *window, key string) { tabInto(b, fmt.Sprintf("[data-key=%q]", key)) }

// tabInto presses Tab until what has the focus fits a selector, or lies in what does.
func tabInto(b *window, selector string) {
	GinkgoHelper()
	for range 40 {
		if value[bool](b, fmt.Sprintf("document.activeElement.closest(%q) !== null", selector)) {
			return
		}
		b.press(kb.Tab)
	}
	Fail("Tab does not come to " + selector)
}

// rowTo presses Tab until a table has the focus, and then arrows until a row has it.
func rowTo(b *window, key string) {
	GinkgoHelper()
	tabInto(b, "[role=grid]")
	b.do(chromedp.KeyEvent(kb.Home, chromedp.KeyModifiers(input.ModifierCtrl)))
	for range 40 {
		if value[string](b, "document.activeElement.dataset.key ?? ''") == key {
			return
		}
		b.press(kb.ArrowDown)
	}
	Fail("the arrows do not come to " + key)
}
