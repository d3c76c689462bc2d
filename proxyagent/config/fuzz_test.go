package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Whatever is taken is valid, has settings in both families, and means the same when it is written out as our own kind.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(theirHead + "clusterCIDR: 10.0.0.0/8,::/0\nnodePortAddresses: [all, localhost]\n"))
	f.Add([]byte(ownHead + "client: {qps: 1e39}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := Parse(text)
		if err != nil {
			return
		}
		if err := Validate(c); err != nil {
			t.Errorf("taken, and not valid: %v", err)
		}
		for _, family := range []model.Family{model.IPv4, model.IPv6} {
			if s, _ := Settings(c, family); s.LocalSource.CIDR.IsValid() && model.FamilyOf(s.LocalSource.CIDR.Addr()) != family {
				t.Errorf("%s: %v", family, s)
			}
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, warnings, err := Parse(again)
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%s: %v, %q", again, err, warnings)
		}
		if text, _ := json.Marshal(got); string(text) != string(again) {
			t.Errorf("read again it is\n%s\ninstead of\n%s", text, again)
		}
	})
}
