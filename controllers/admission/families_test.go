package admission

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// recorded is what kube-apiserver does with every request of the table below.
//
//go:embed testdata/kep563.txt
var recorded []byte

// The table is the product of these, in this order. A dot behind an address: clusterIP alone is
// given; before it: clusterIPs alone.
var (
	recordedTypes    = []string{"ClusterIP", "LoadBalancer", "ExternalName"}
	recordedPolicies = []string{"", "SingleStack", "PreferDualStack", "RequireDualStack"}
	recordedFamilies = []string{"", "4", "6", "46", "64"}
	recordedIPs      = []string{"", "4", "6", "46", "64", "N", "4.", "6.", "N.", ".4", ".46"}
)

// sketch is a Service in short: 4, 6 and N stand for addresses of these families and for None.
type sketch struct{ kind, policy, families, ip, ips string }

func (k sketch) String() string {
	return fmt.Sprintf("type=%s policy=%s families=%s clusterIP=%s clusterIPs=%s", k.kind, k.policy, k.families, k.ip, k.ips)
}

var sketchedAddress = map[rune]string{'4': "10.0.0.5", '6': "fd00::5", 'N': corev1.ClusterIPNone}

func (k sketch) service() *service {
	s := &service{}
	s.Metadata.Namespace, s.Metadata.Name = "ns", "a"
	s.Spec.Type = corev1.ServiceType(k.kind)
	if k.policy != "" {
		policy := corev1.IPFamilyPolicy(k.policy)
		s.Spec.IPFamilyPolicy = &policy
	}
	for _, f := range sketchedFamilies(k.families) {
		s.Spec.IPFamilies = append(s.Spec.IPFamilies, ipFamily(f))
	}
	for _, c := range k.ip {
		s.Spec.ClusterIP = clusterIPOf(sketchedAddress[c])
	}
	for _, c := range k.ips {
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, clusterIPOf(sketchedAddress[c]))
	}
	return s
}

func clusterIPOf(text string) (c clusterIP) {
	_ = c.UnmarshalText([]byte(text)) // which never fails
	return c
}

func sketchedFamilies(text string) (out []allocator.Family) {
	for _, c := range text {
		out = append(out, allocator.Family(c-'0'))
	}
	return out
}

func eachSketch(yield func(sketch) bool) {
	for _, kind := range recordedTypes {
		for _, policy := range recordedPolicies {
			for _, families := range recordedFamilies {
				for _, ips := range recordedIPs {
					k := sketch{kind, policy, families, ips[:min(1, len(ips))], ips}
					switch {
					case strings.HasSuffix(ips, "."):
						k.ips = ""
					case strings.HasPrefix(ips, "."):
						k.ip, k.ips = "", ips[1:]
					}
					if !yield(k) {
						return
					}
				}
			}
		}
	}
}

// oldSketch reads "type/policy/families/clusterIPs", or "create".
func oldSketch(text string) *service {
	part := strings.Split(text, "/")
	if len(part) < 4 {
		return nil
	}
	return sketch{part[0], part[1], part[2], part[3][:min(1, len(part[3]))], part[3]}.service()
}

type recordedRow struct{ cluster, before, letters string }

// recordedRows yields the lines of the record, their runs written out.
func recordedRows(yield func(recordedRow) bool) {
	runs := regexp.MustCompile(`x\d+`)
	for line := range bytes.Lines(recorded) {
		if line[0] == '#' {
			continue
		}
		f := strings.Fields(string(line))
		letters := runs.ReplaceAllStringFunc(f[2], func(run string) string {
			n, _ := strconv.Atoi(run[1:])
			return strings.Repeat("x", n)
		})
		if !yield(recordedRow{f[0], f[1], letters}) {
			return
		}
	}
}

// Exactly what the API server adds by itself is drawn for it: for every kind of creation, update
// and cluster. Where it refuses, what is drawn does not matter if it comes back; where it accepts,
// one address too many would have a correct update refused.
func TestMissingIsWhatTheAPIServerAdds(t *testing.T) {
	added := map[rune][]allocator.Family{'v': four, 's': {allocator.IPv6}, 'A': allocator.Families, 'B': {allocator.IPv6, allocator.IPv4}}
	compared := 0
	for row := range recordedRows {
		var wrong []string
		i := 0
		for k := range eachSketch {
			letter := rune(row.letters[i])
			i++
			if letter == 'x' {
				continue
			}
			compared++
			if got := newRequest(k.service(), oldSketch(row.before)).missing(sketchedFamilies(row.cluster)); !slices.Equal(got, added[letter]) {
				wrong = append(wrong, fmt.Sprintf("%s: adds %v, the API server %v", k, got, added[letter]))
			}
		}
		if i != len(row.letters) {
			t.Fatalf("the record has %d requests in a row, the table %d", len(row.letters), i)
		}
		if len(wrong) > 0 {
			t.Errorf("cluster %s, before: %s: %d wrong, such as\n  %s", row.cluster, row.before, len(wrong), strings.Join(wrong[:min(4, len(wrong))], "\n  "))
		}
	}
	if compared < 3000 {
		t.Errorf("only %d requests were compared", compared)
	}
}
