package bundle

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Of a Service is kept what addresses depend on, and of its author's texts nothing else.
func TestSlimService(t *testing.T) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "u", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "secret"}}, OwnerReferences: []metav1.OwnerReference{{Name: "secret"}},
			Labels: map[string]string{"team": "blue", "secret": "secret", v1alpha1.Prefix + "/secret": "secret", "app.kubernetes.io/name": "secret", "service.kubernetes.io/service-proxy-name": "other"},
			Annotations: map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": "secret", "external-dns.alpha.kubernetes.io/hostname": "secret", "note": "secret", v1alpha1.Prefix + "/note": "secret",
				v1alpha1.AnnotationFormerIPs: "10.96.0.7", v1alpha1.AnnotationRenumbering: "secret", v1alpha1.AnnotationEndpointWeights: "secret=1:2", v1alpha1.AnnotationScheduler: strings.Repeat("x", 5000),
			},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{"10.96.0.9", "fd00::9"}, Selector: map[string]string{"secret": "secret"}, ExternalName: "secret",
			Ports: []corev1.ServicePort{{Name: "secret", Port: 80, TargetPort: intstr.FromString("secret"), AppProtocol: new("secret")}},
		},
	}
	out, err := object(s, map[string]bool{"team": true})
	if err != nil {
		t.Fatal(err)
	}
	only(out, ofServices)
	bounded(out)
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"metadata":{"annotations":{"clusterip-operator.io/endpoint-weights":"10 bytes","clusterip-operator.io/former-ips":"10.96.0.7",` +
		`"clusterip-operator.io/renumbering":"6 bytes","clusterip-operator.io/scheduler":"..."},"labels":{"service.kubernetes.io/service-proxy-name":"other","team":"blue"},` +
		`"name":"web","namespace":"shop","uid":"u"},"spec":{"clusterIPs":["10.96.0.9","fd00::9"],"ports":[{"port":80}],"type":"ClusterIP"},"status":{"loadBalancer":{}}}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

// All that the project defines is kept, or its size is, but for what is never stored.
func TestKeysOfTheProjectAreKept(t *testing.T) {
	source, err := os.ReadFile("../../api/v1alpha1/names.go")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?:Label|Annotation)\w+ += Prefix \+ "([^"]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(all) < 10 {
		t.Errorf("only %d keys were found", len(all))
	}
	for _, match := range all {
		if key := v1alpha1.Prefix + match[1]; !slices.Contains(kept, key) && !slices.Contains(sized, key) && key != v1alpha1.AnnotationProbe {
			t.Errorf("%s is neither kept nor sized", key)
		}
	}
}

// What a tenant may make large is cut, in a Service of both families.
func TestSlimLargeService(t *testing.T) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{}}}
	for i := range 1000 {
		s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, fmt.Sprintf("10.0.%d.%d", i/256, i%256), fmt.Sprintf("fd00::%x", i))
		s.Annotations[fmt.Sprintf("service.kubernetes.io/%d", i)] = strings.Repeat("x", 2000)
	}
	kept, err := (&bundle{}).slim(s, ofServices)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"fd00::1f","and 1936 more"]`) || strings.Count(string(text), "service.kubernetes.io/") != mostOfList || len(text) > 80_000 {
		t.Errorf("%d bytes of %.200s", len(text), text)
	}
}

// The end of a log is kept in whole lines, however it comes.
func TestEnd(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	for name, tc := range map[string]struct{ lines, want int }{
		"short": {10, 10}, "long": {mostOfLog / 50, mostOfLog / 100}, "very long": {mostOfLog / 10, mostOfLog / 100},
	} {
		var e end
		for range tc.lines {
			if _, err := e.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		got := e.String()
		if strings.Trim(got, "x\n") != "" || len(got)%100 != 0 || len(got)/100 != tc.want {
			t.Errorf("%s: %d bytes of %d lines, want %d lines", name, len(got), tc.lines, tc.want)
		}
		if e.Cap() > 5*mostOfLog {
			t.Errorf("%s: %d bytes are held", name, e.Cap())
		}
	}
}
