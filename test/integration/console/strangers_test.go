package console_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// get asks as a program does.
func get(where string, headers map[string]string) (code int, body string) {
	GinkgoHelper()
	request := suite.Must(http.NewRequest(http.MethodGet, where, nil))
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	if host := headers["Host"]; host != "" {
		request.Host = host
	}
	response := suite.Must(http.DefaultClient.Do(request))
	defer func() { _ = response.Body.Close() }()
	text := suite.Must(io.ReadAll(response.Body))
	return response.StatusCode, string(text)
}

var _ = Describe("a stranger to the console", func() {
	It("gets nothing without the token", func() {
		where := suite.Must(url.Parse(address))
		for _, path := range []string{"/", "/app.js", "/api/ranges", "//api/ranges", strings.ToLower(where.Path) + "api/ranges", where.Path[:len(where.Path)-2] + "/api/ranges"} {
			code, body := get("http://"+where.Host+path, nil)
			Expect(code).To(Equal(http.StatusForbidden), path)
			Expect(body).To(BeEmpty(), path)
		}
		code, body := get(address+"api/ranges", nil)
		Expect(code).To(Equal(http.StatusOK))
		Expect(body).To(ContainSubstring("10.96.0.0/12"), "with it everything")
	})

	It("gets nothing from a page of another origin, nor under another name, though it knew the token", func() {
		for _, headers := range []map[string]string{{"Host": "evil.example"}, {"Host": "10.0.0.1:80"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://evil.example"}} {
			code, body := get(address+"api/ranges", headers)
			Expect(code).To(Equal(http.StatusForbidden), fmt.Sprint(headers))
			Expect(body).To(BeEmpty())
		}
		evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `<!doctype html><title>evil</title><iframe src=%q></iframe><script src="%suplot.js"></script>`, address, address)
		}))
		DeferCleanup(evil.Close)
		b := newWindow()
		b.do(chromedp.Navigate(evil.URL))
		Expect(value[string](b, "typeof uPlot")).To(Equal("undefined"), "a script of the console runs in another page")
		Eventually(b.complaints).Should(ContainElement(And(ContainSubstring("403"), ContainSubstring("uplot.js"))))
		Eventually(b.complaints).Should(ContainElement(ContainSubstring("frame-ancestors")), "a frame does not show the page")
	})
})
