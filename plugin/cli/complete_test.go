package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// paged is an API server that has so many pages of names, of three objects each.
type paged struct {
	client.WithWatch
	pages int
	asked []string
}

func (p *paged) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return schema.GroupVersionKind{Version: "v1", Kind: strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")}, nil
}

func (p *paged) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	list, ok := into.(*metav1.PartialObjectMetadataList)
	with := (&client.ListOptions{}).ApplyOptions(options)
	if !ok || with.Limit == 0 {
		return fmt.Errorf("a %T, %d at once", into, with.Limit)
	}
	n := len(p.asked)
	p.asked = append(p.asked, strings.Trim(fmt.Sprintf("%s %s %s", list.Kind, with.Namespace, with.Continue), " "))
	list.Items, list.Continue = nil, ""
	for _, name := range []string{"blue", "green", "black"} {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, n)}})
	}
	if n+1 < p.pages {
		list.Continue = fmt.Sprint("page-", n+1)
	}
	return nil
}

// Names are completed without reading the objects, of which one may be a megabyte.
func TestNames(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, prefix, word string
		pages              int
		want               string
		asked              []string
	}{
		"ranges":                    {KindRange, "", "b", 1, "blue-0 black-0", []string{"ServiceCIDRList"}},
		"namespaces":                {KindNamespace, "", "", 1, "blue-0 green-0 black-0", []string{"NamespaceList"}},
		"Services of the namespace": {KindService, "svc/", "svc/g", 1, "svc/green-0", []string{"ServiceList shop"}},
		"several pages":             {KindRange, "", "bl", 3, "blue-0 black-0 blue-1 black-1 blue-2 black-2", []string{"ServiceCIDRList", "ServiceCIDRList  page-1", "ServiceCIDRList  page-2"}},
		"policies are not served":   {KindPolicy, "", "", 1, "", nil},
		"addresses have none":       {KindAddress, "", "", 1, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := &paged{pages: tc.pages}
			got := (&Cluster{WithWatch: server, Namespace: "shop"}).names(t.Context(), tc.kind, tc.prefix, tc.word)
			if strings.Join(got, " ") != tc.want || !slices.Equal(server.asked, tc.asked) {
				t.Errorf("names %q, asked %q; want %q, %q", got, server.asked, tc.want, tc.asked)
			}
		})
	}
	endless := &paged{pages: 1 << 20}
	if got := (&Cluster{WithWatch: endless}).names(t.Context(), KindRange, "", "g"); len(got) != mostNames {
		t.Errorf("%d names of a million", len(got))
	}
}

// A shell waits for a cluster that is away no longer than completionTime: discovery would wait for
// half a minute. The limit between them is generous: a busy machine is no finding.
func TestNamesOfAClusterThatIsAway(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // which accepts nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a := NewSession(Streams{Out: io.Discard, ErrOut: io.Discard})
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.AddFlags(flags)
	if err := flags.Parse([]string{"--kubeconfig=/dev/null", "--server=http://" + l.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if got := a.Names(t.Context(), KindRange, "", ""); len(got) > 0 || time.Since(start) > 20*time.Second {
		t.Errorf("names %q after %s", got, time.Since(start))
	}
	if got := a.kube.overrides.Timeout; got != "0" {
		t.Errorf("the session keeps the time-out %s", got)
	}
}
