package inspect

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/history"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// lived is a record from noon on; one that has ended, an hour later.
func lived(a netip.Addr, name, came, ended string) history.Record {
	r := history.Record{Address: a, Service: types.NamespacedName{Namespace: "shop", Name: name}, UID: types.UID(name), Came: came, From: history.At(noon), Ended: ended}
	if ended != "" {
		r.To = history.At(noon.Add(time.Hour))
	}
	return r
}

// pastOf is that of an address which a Service has now, empty for none.
func pastOf(a netip.Addr, holder string, records ...history.Record) past {
	p := past{address: a, namespace: "home", kept: len(records) > 0, offered: true, held: map[types.NamespacedName]types.UID{}}
	if p.kept {
		p.page = history.Page{Seen: noon.Add(2 * time.Hour), Records: records}
	}
	if holder != "" {
		p.ip = &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: a.String(), CreationTimestamp: metav1.NewTime(noon)}}
		p.parent = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: holder, UID: types.UID(holder)}}
		p.held[types.NamespacedName{Namespace: "shop", Name: holder}] = types.UID(holder)
	}
	return p
}

func TestHistory(t *testing.T) {
	for family, a := range map[string]netip.Addr{"IPv4": netip.MustParseAddr("10.96.0.7"), "IPv6": netip.MustParseAddr("fd00::7")} {
		cooling := pastOf(a, "")
		cooling.ip = &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{
			Name: a.String(), CreationTimestamp: metav1.NewTime(noon.Add(time.Minute)), Labels: map[string]string{networkingv1.LabelManagedBy: v1alpha1.ManagedByOperator},
			Annotations: map[string]string{v1alpha1.AnnotationLastService: "shop/web", v1alpha1.AnnotationReleased: "2026-11-28T12:00:30.5Z"},
		}}
		outside, refused := pastOf(a, "", lived(a, "web", history.Created, history.Deleted)), pastOf(a, "web")
		outside.offered, refused.refused = false, true
		unseen := lived(a, "web", history.Created, history.Unseen)
		unseen.To.After = noon.Add(time.Minute)
		for name, tc := range map[string]struct {
			past past
			want []string // the rows, and what is said
		}{
			"the Service has it still": {pastOf(a, "web", lived(a, "web", history.Created, "")), []string{"shop/web 2026-11-28T12:00:00Z <none> created <none> web"}},
			"it had it, and another one has it": {pastOf(a, "api", lived(a, "web", history.Created, history.Deleted), lived(a, "api", history.Found, "")), []string{
				"shop/api 2026-11-28T12:00:00Z <none> found <none> api", "shop/web 2026-11-28T12:00:00Z 2026-11-28T13:00:00Z created deleted web"}},
			"nobody saw it go": {pastOf(a, "", unseen), []string{"shop/web 2026-11-28T12:00:00Z 2026-11-28T12:01:00Z..2026-11-28T13:00:00Z created unseen web"}},
			"the operator does not run": {pastOf(a, "api", lived(a, "web", history.Created, "")), []string{
				"shop/api 2026-11-28T12:00:00Z <none> <unknown> <none> api", "shop/web 2026-11-28T12:00:00Z after 2026-11-28T14:00:00Z created unseen web", "last written at 2026-11-28T14:00:00Z"}},
			"without a history": {pastOf(a, "web"), []string{"shop/web 2026-11-28T12:00:00Z <none> <unknown> <none> web", "No history is kept in namespace home"}},
			"cooling":           {cooling, []string{"shop/web <none> 2026-11-28T12:00:30Z <unknown> <none> <unknown>", "No history is kept in namespace home"}},
			"of no range":       {outside, []string{"shop/web 2026-11-28T12:00:00Z 2026-11-28T13:00:00Z created deleted web", "No ServiceCIDR has " + a.String()}},
			"not allowed":       {refused, []string{"shop/web 2026-11-28T12:00:00Z <none> <unknown> <none> web", "You may not read the history"}},
			"never used":        {past{address: a, kept: true, offered: true}, []string{"No Service has had " + a.String()}},
		} {
			h := tc.past.decide()
			var got []string
			for _, row := range listOwners(h).Table.Rows {
				var cells []string
				for _, cell := range row.Cells {
					cells = append(cells, cell.(string))
				}
				got = append(got, strings.Join(cells, " "))
			}
			got = append(got, h.Notes...)
			if !slices.EqualFunc(got, tc.want, strings.Contains) {
				t.Errorf("%s, %s: told\n%s\nwant\n%s", family, name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		}
	}
}

// What programs get has a name for each field, and a list where there is nothing.
func TestHistoryForPrograms(t *testing.T) {
	a := netip.MustParseAddr("fd00::7")
	var b strings.Builder
	out := cli.Output{Format: "json"}
	if err := out.Print(&b, listOwners(pastOf(a, "web", lived(a, "web", history.Created, "")).decide())); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kind": "AddressHistory"`, `"address": "fd00::7"`, `"seen": "2026-11-28T14:00:00Z"`, `"service": "shop/web"`, `"from": "2026-11-28T12:00:00Z"`, `"came": "created"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s lacks %s", b.String(), want)
		}
	}
	if strings.Contains(b.String(), `"to"`) || strings.Contains(b.String(), `"fromAfter"`) {
		t.Errorf("%s has what is not known", b.String())
	}
	b.Reset()
	if err := out.Print(&b, listOwners(past{address: a}.decide())); err != nil || !strings.Contains(b.String(), `"items": []`) {
		t.Errorf("%s, %v", b.String(), err)
	}
}
