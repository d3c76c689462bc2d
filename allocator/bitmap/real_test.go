package bitmap_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// capture is a file of testdata/real: what an API server had in etcd, see testdata/README.md.
type capture struct {
	Bitmaps []struct {
		Key        string
		Range      string
		Data       []byte
		ClusterIPs []netip.Addr // of all Services, ascending
	}
}

func readCaptures(t *testing.T) map[string]capture {
	t.Helper()
	paths, err := filepath.Glob("testdata/real/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no captures: %v", err)
	}
	captures := map[string]capture{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var c capture
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		captures[filepath.Base(path)] = c
	}
	return captures
}

// TestReal reads what API servers wrote, finds their Services' addresses and writes the same bytes.
func TestReal(t *testing.T) {
	for name, c := range readCaptures(t) {
		for _, real := range c.Bitmaps {
			t.Run(name+"/"+filepath.Base(real.Key), func(t *testing.T) {
				if real.Key == "ranges/servicenodeports" {
					if _, err := bitmap.Parse(real.Range, real.Data); !errors.Is(err, bitmap.ErrNodePorts) {
						t.Errorf("%v, want ErrNodePorts", err)
					}
					return
				}
				b := parse(t, real.Range, real.Data)
				if diff := cmp.Diff(real.ClusterIPs, slices.Collect(b.All()), byEquality); diff != "" {
					t.Errorf("addresses (-want +got):\n%s", diff)
				}
				if b.String() != real.Range || !bytes.Equal(b.Data(), real.Data) || b.Len() != len(real.ClusterIPs) {
					t.Errorf("written as %s with %d addresses and other bytes", b, b.Len())
				}
				made := newBitmap(t, netip.MustParsePrefix(real.Range))
				add(t, made, real.ClusterIPs...)
				if !made.Equal(b) || !bytes.Equal(made.Data(), real.Data) {
					t.Error("the Services give another bitmap")
				}
			})
		}
	}
}
