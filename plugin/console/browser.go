package console

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// openers are the programs by which desktops open a file.
var openers = map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}

// openBrowser has the user's browser open a URL. clean removes what that needed, and failed gets
// the error of the program that opens browsers. Other users see the arguments of programs, and the
// URL has the token: the browser is given a file that only the user can read, and that leads to
// the URL.
func openBrowser(url string, failed func(error)) (clean func(), err error) {
	dir, err := os.MkdirTemp("", "clusterip-console-") // 0700
	if err != nil {
		return nil, fmt.Errorf("leading the browser to the console: %w", err)
	}
	clean = func() { _ = os.RemoveAll(dir) }
	file, target := filepath.Join(dir, "open.html"), html.EscapeString(url)
	page := fmt.Sprintf("<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%s\"><meta name=\"referrer\" content=\"no-referrer\"><a href=\"%s\">The console</a>\n", target, target)
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		clean()
		return nil, fmt.Errorf("leading the browser to the console: %w", err)
	}
	command, ok := openers[runtime.GOOS]
	if !ok {
		command = []string{"xdg-open"}
	}
	cmd := exec.Command(command[0], append(command[1:], file)...) //nolint:gosec,noctx // the program is one of openers; a browser that it starts outlives us
	cmd.SysProcAttr = apart
	if err := cmd.Start(); err != nil {
		clean()
		return nil, fmt.Errorf("opening a browser: %w", err)
	}
	go func() {
		if err := cmd.Wait(); err != nil {
			failed(fmt.Errorf("opening a browser: %s: %w", command[0], err))
		}
	}()
	return clean, nil
}
