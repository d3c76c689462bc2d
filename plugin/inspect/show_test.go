package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// What `addresses show` prints for people and for programs is the same.
func TestShow(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	o := shown{Answer{Subject: "fd00::1", Addresses: []view.Address{heldBy("shop/web")}}, []pastEvent{{now.Add(-time.Minute), "Repaired", "fd00::1 is back"}}}
	for format, want := range map[string]string{
		"": "fd00::1 is the ClusterIP of Service shop/web\n  no ServiceCIDR offers it\n  60s ago: Repaired: fd00::1 is back\n",
		"jsonpath={.subject} {.addresses[0].services[0]} {.events[0]}":        `fd00::1 shop/web {"message":"fd00::1 is back","reason":"Repaired","time":"2023-11-14T22:12:20Z"}`,
		"custom-columns=ADDRESS:.addresses[0].address,LAST:.events[0].reason": "ADDRESS   LAST\nfd00::1   Repaired\n",
	} {
		var b strings.Builder
		if err := o.print(&b, format, now); err != nil || b.String() != want {
			t.Errorf("-o %q, error %v:\n%s\nwant\n%s", format, err, b.String(), want)
		}
	}
	var b strings.Builder
	if err := o.print(&b, "yaml", now); err != nil || !strings.HasPrefix(b.String(), "addresses:\n") {
		t.Errorf("error %v:\n%s", err, b.String())
	}
}
