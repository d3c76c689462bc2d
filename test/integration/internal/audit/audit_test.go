package audit

import "testing"

func TestWhatAKilledAPIServerLeavesBeforeAnEventIsCutOff(t *testing.T) {
	const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"a"}` + "\n"
	for name, line := range map[string]string{
		"nothing":       event,
		"zeros":         "\x00\x00\x00" + event,
		"a beginning":   event[:len(event)/2] + event,
		"both of these": event[:len(event)-2] + "\x00\x00" + event,
	} {
		if got := string(whole([]byte(line))); got != event {
			t.Errorf("%s: got %q", name, got)
		}
	}
	const broken = "{\n"
	if got := string(whole([]byte(broken))); got != broken {
		t.Errorf("what is no event is kept, to be told: got %q", got)
	}
}
