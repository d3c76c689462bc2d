package framework

import "testing"

// TestAPortBelongsToOneProcess claims a port twice; another process is refused by the same lock.
func TestAPortBelongsToOneProcess(t *testing.T) {
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if claim(port) {
		t.Errorf("port %d, which was given out, can be claimed again", port)
	}
}
