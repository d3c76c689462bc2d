//go:build unix

package console

import "syscall"

// apart keeps the Ctrl-C that ends the command from the browser.
var apart = &syscall.SysProcAttr{Setsid: true}
