package cli

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type thing struct {
	Name string   `json:"name"`
	More []string `json:"more,omitempty"`
}

// In every format a long list is printed as a Listing of the same, byte by byte.
func TestLongListsPrintAsListings(t *testing.T) {
	heads := Columns("NAME", "MORE", "+WIDE")
	for _, all := range [][]thing{
		{}, {{Name: "a"}}, {{Name: "a", More: []string{"x", "y"}}, {Name: "a longer name than the head"}, {Name: "zürich\x1b[2J\n\tb", More: []string{""}}},
	} {
		l := Listing{Value: listOf[thing]{"ThingList", all}, Table: metav1.Table{ColumnDefinitions: heads}}
		for _, one := range all {
			l.Names = append(l.Names, "thing/"+one.Name)
			l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{one.Name, len(one.More), "w"}})
		}
		for _, o := range []Output{
			{Format: ""}, {Format: "wide"}, {Format: "name"}, {Format: "json"}, {Format: "yaml"}, {NoHeaders: true}, {Format: "jsonpath={.items[*].name} {.kind}"},
			{Format: "custom-columns=NAME:.name,FIRST:.more[0]"},
		} {
			var want, got, wantErr, gotErr bytes.Buffer
			if err := o.List(Streams{&want, &wantErr}, l); err != nil {
				t.Fatal(err)
			}
			long, err := NewLong[thing](Streams{&got, &gotErr}, o, "ThingList", heads)
			for i, one := range all {
				if err == nil {
					err = long.Add(one, l.Names[i], []any{one.Name, len(one.More), "w"})
				}
			}
			if err == nil {
				err = long.End()
			}
			if diff := cmp.Diff(want.String(), got.String()); err != nil || diff != "" || wantErr.String() != gotErr.String() {
				t.Errorf("%d things as %q: error %v, on stderr %q and %q, (-want +got):\n%s", len(all), o.Format, err, wantErr.String(), gotErr.String(), diff)
			}
		}
	}
}
