package nfnetlink

import "testing"

// FuzzAll reads anything: never past the end, always to an end. Senders test what the kernel takes.
func FuzzAll(f *testing.F) {
	f.Add([]byte(Attrs(nil).Put(1, 7).PutString(2, "x")))
	f.Add([]byte{3, 0, 1, 0})
	f.Add([]byte{5, 0, 1, 0, 9})
	f.Add([]byte{255, 255, 1, 0, 9})
	f.Fuzz(func(t *testing.T, message []byte) {
		read := 0
		for kind, value := range Attrs(message).All() {
			if first := Attrs(message).Get(kind); first == nil {
				t.Errorf("there is no attribute %d", kind)
			}
			read += headerLen + len(value)
			_, _ = value.Number(), value.Text()
		}
		if read > len(message) {
			t.Errorf("read %d of %d bytes", read, len(message))
		}
	})
}
