// Package browser starts Debian's Chromium without a screen, for what has to be seen.
package browser

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// Start starts a browser with one window of 1280 by 900 and a profile of its own, for chromedp's
// actions in the returned context; stop ends it. The error says what is missing, or its complaint.
func Start(ctx context.Context) (window context.Context, stop func(), err error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, nil, fmt.Errorf("%w; hack/setup.sh installs the Debian package chromium", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900),
		// Otherwise it looks for servers of its maker.
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true))
	allocator, end := chromedp.NewExecAllocator(ctx, options...)
	window, closeWindow := chromedp.NewContext(allocator)
	stop = func() { closeWindow(); end() }
	if err := chromedp.Run(window); err != nil {
		stop()
		return nil, nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return window, stop, nil
}
