package check

import (
	"cmp"
	"encoding/xml"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/ipaddress"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/internal/plain"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// reportKind marks a file as the report of a check.
const reportKind = "CheckReport"

// Report is what `check` prints and `repair` reads.
type Report struct {
	Kind string `json:"kind"`
	// Bitmaps: those in etcd were looked at.
	Bitmaps bool   `json:"bitmaps,omitempty"`
	Items   []Item `json:"items"`
	// Unknown is what the user may not read: it was not looked at.
	Unknown []Unknown `json:"unknown,omitempty"`
}

// Unknown is something that was not looked at. In a file it is a sentence.
type Unknown struct {
	// Why says what it is, Checks are those that may have failed by it.
	Why    string
	Checks []string
}

// MarshalText implements [encoding.TextMarshaler].
func (u Unknown) MarshalText() ([]byte, error) { return []byte(u.Why), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]: the checks are not in a file.
func (u *Unknown) UnmarshalText(text []byte) error {
	u.Why = string(text)
	return nil
}

// Item is one thing that is wrong.
type Item struct {
	Check string `json:"check"`
	// Object is what is wrong, kind/name or kind/namespace/name; Address the address in question.
	Object  string `json:"object"`
	Address string `json:"address,omitempty"`
	Message string `json:"message"`
	// Repair is what `repair` does: create, delete, replace or relabel; empty: only an admin can help.
	Repair string `json:"repair,omitempty"`
	// Owner and the fields below are what the repair is right for; it is refused once one has changed.
	Owner           string `json:"owner,omitempty"`
	ServiceUID      string `json:"serviceUID,omitempty"`
	IPAddressUID    string `json:"ipAddressUID,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// AddDrift adds an item for each finding, in the words of the check that it fails.
func (r *Report) AddDrift(d view.Drift) {
	for _, f := range d.Addresses {
		i := Item{
			Check: driftChecks[f.Drift], Object: "ipaddress/" + f.Address.String(), Address: f.Address.String(), Message: means(f), Repair: f.Do,
			ServiceUID: string(f.ServiceUID), IPAddressUID: string(f.IPAddressUID), ResourceVersion: f.ResourceVersion,
		}
		if f.Owner.Name != "" {
			i.Object, i.Owner = "service/"+f.Owner.String(), f.Owner.String()
		}
		r.Items = append(r.Items, i)
	}
	for _, f := range d.Services {
		r.Items = append(r.Items, Item{Check: driftChecks[f.Drift], Object: "service/" + f.Service.String(), Address: f.Text, Message: f.Note})
	}
}

// means says what is wrong. The controller's notes would say what it did, and `check` does nothing.
func means(f ipaddress.Finding) string {
	text := checks[driftChecks[f.Drift]]
	if len(f.Losers) > 0 {
		var others []string
		for _, l := range f.Losers {
			others = append(others, l.String())
		}
		text += "; create anew, so that they get addresses of their own: " + strings.Join(others, ", ")
	}
	if f.Do == "" && len(f.Losers) == 0 {
		text += ": it " + f.Note
	}
	return text
}

// Sort orders the items as `check` prints them.
func (r Report) Sort() { slices.SortStableFunc(r.Items, Item.compare) }

// compare orders by check and object.
func (i Item) compare(other Item) int {
	return cmp.Or(cmp.Compare(i.Check, other.Check), cmp.Compare(i.Object, other.Object))
}

// Print writes the report in a format of `check`.
func (r Report) Print(w io.Writer, format string) error {
	switch {
	case format == "junit":
		return r.junit(w)
	case !cli.AsTable(format):
		return cli.Encode(w, r, format)
	}
	if len(r.Items) == 0 {
		_, err := io.WriteString(w, "Nothing is wrong.\n")
		return err
	}
	l := cli.Listing{Table: metav1.Table{ColumnDefinitions: cli.Columns("CHECK", "OBJECT", "ADDRESS", "REPAIR", "MESSAGE")}}
	for _, i := range r.Items {
		l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{i.Check, i.Object, cmp.Or(i.Address, "<none>"), cmp.Or(i.Repair, "<none>"), i.Message}})
	}
	return (&cli.Output{}).Print(w, l)
}

// because is why a test failed or was skipped.
type because struct {
	Message string `xml:"message,attr"`
}

// skips is why a check was not looked at; nil if it was.
func (r Report) skips(check string) *because {
	var why []string
	for _, u := range r.Unknown {
		if slices.Contains(u.Checks, check) {
			why = append(why, u.Why)
		}
	}
	if len(why) == 0 {
		return nil
	}
	return &because{strings.Join(why, "; ")}
}

// junit writes one test for each check, as pipelines show them.
func (r Report) junit(w io.Writer) error {
	type test struct {
		Name     string    `xml:"name,attr"`
		Skipped  *because  `xml:"skipped"`
		Failures []because `xml:"failure"`
	}
	suite := struct {
		XMLName  xml.Name `xml:"testsuite"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Cases    []test   `xml:"testcase"`
	}{Name: "kubectl clusterip check"}
	looked := maps.Clone(checks)
	if r.Bitmaps {
		maps.Copy(looked, migration.BitmapKinds())
	}
	suite.Tests = len(looked)
	for name := range looked {
		t := test{Name: name}
		for _, i := range r.Items {
			if i.Check == name {
				t.Failures = append(t.Failures, because{strings.TrimSpace(i.Object + " " + i.Address + ": " + i.Message)})
			}
		}
		if t.Skipped = r.skips(name); len(t.Failures) > 0 {
			t.Skipped = nil // what was looked at is wrong
		} else if t.Skipped != nil {
			suite.Skipped++
		}
		suite.Cases, suite.Failures = append(suite.Cases, t), suite.Failures+min(1, len(t.Failures))
	}
	slices.SortFunc(suite.Cases, func(a, b test) int { return cmp.Compare(a.Name, b.Name) })
	text, err := xml.MarshalIndent(suite, "", "  ")
	if err == nil {
		_, err = io.WriteString(w, plain.Lines(xml.Header+string(text)+"\n"))
	}
	return err
}
