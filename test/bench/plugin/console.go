package plugin

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/browser"
)

// console is `kubectl clusterip console` in a browser.
type console struct {
	plugin *framework.Plugin
	window context.Context
	end    func()
	url    string
}

var consoleURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/[A-Z2-7]+/`)

// openConsole starts a console and a browser, and returns when the first has read the cluster.
func openConsole(ctx context.Context, c *cluster.Cluster) (*console, error) {
	plugin, err := c.StartPlugin(ctx, framework.PluginOptions{Args: []string{"console", "--no-browser"}})
	if err != nil {
		return nil, err
	}
	if err := plugin.WaitPrinted(ctx, "press Ctrl-C"); err != nil {
		return nil, errors.Join(err, plugin.Stop())
	}
	window, end, err := browser.Start(ctx)
	if err != nil {
		return nil, errors.Join(err, plugin.Stop())
	}
	return &console{plugin, window, end, consoleURL.FindString(plugin.LogTail(10))}, nil
}

func (c *console) close() error {
	c.end()
	return c.plugin.Stop()
}

// paint opens the page and asks the browser when it first painted something of it.
func (c *console) paint() (time.Duration, error) {
	return c.when("", "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
}

// ranges opens the page and waits until the ranges are on it.
func (c *console) ranges() (time.Duration, error) {
	return c.when("", "document.querySelector('clusterip-ranges table') ? performance.now() : 0")
}

// addresses opens the view of all addresses and waits until there are some.
func (c *console) addresses() (time.Duration, error) {
	return c.when("#addresses", "document.querySelector('clusterip-addresses [data-address]') ? performance.now() : 0")
}

// when opens a view of the page and returns what an expression says in milliseconds, as soon as it
// is not 0.
func (c *console) when(view, expression string) (time.Duration, error) {
	var ms float64
	err := chromedp.Run(c.window, chromedp.Navigate("about:blank"), chromedp.Navigate(c.url+view), chromedp.Poll(expression, &ms, chromedp.WithPollingInterval(5*time.Millisecond)))
	if err != nil {
		return 0, fmt.Errorf("opening the console: %w", err)
	}
	return time.Duration(ms * float64(time.Millisecond)), nil
}
