package console

import "syscall"

// apart keeps the Ctrl-C that ends the command from the browser.
var apart = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
