package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestValidOutput(t *testing.T) {
	for format, want := range map[string]bool{
		"": true, "json": true, "yaml": true, "wide": true, "jsonpath={.kind}": true, "custom-columns=A:.a,B:{.b[*].c}": true, "custom-columns=A:a": true,
		"JSON": false, "table": false, "jsonpath-as-json={.kind}": false, "name": false, "xml": false, "jsonpath": false, "jsonpath=": false, "jsonpath={.a": false, "jsonpath={.items[}": false, "custom-columns=A": false, "custom-columns=A:,B:b": false,
		"custom-columns=A:{{}": false, "json=x": false, "go-template={{.}}": false, "plan.yaml": false,
	} {
		err := ValidOutput(format, "wide")
		if (err == nil) != want {
			t.Errorf("%q: %v", format, err)
		}
		if err != nil && (strings.ContainsRune(err.Error(), '\n') || !strings.HasPrefix(err.Error(), "--output ")) {
			t.Errorf("%q: it says %q", format, err)
		}
	}
}

// A path of a template may end as the name of a file.
func TestWhereAPlanGoes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "plan.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for output, want := range map[string]struct {
		file bool
		err  string
	}{
		"json": {}, "": {}, "custom-columns=A:.x.json": {}, "jsonpath={.a}.yaml": {}, file: {true, ""}, filepath.Join(dir, "new.json"): {true, ""},
		"plan.xml": {false, "or a file name that ends in .yaml or .json"}, filepath.Join(dir, "none", "plan.yaml"): {true, "there is no folder " + dir + "/none; make it"},
		filepath.Join(file, "plan.json"): {true, "plan.yaml is no folder"},
	} {
		err := ValidPlanOutput(output)
		if PlanFile(output) != want.file || (want.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: a file: %t, error %v, want %+v", output, PlanFile(output), err, want)
		}
	}
	if err := ValidFile("--svg", dir); err == nil || !strings.Contains(err.Error(), "is a folder; name a file in it") {
		t.Errorf("a folder: %v", err)
	}
}

func TestEncode(t *testing.T) {
	type item struct {
		Name string `json:"name"`
		Size int64  `json:"size,omitempty"`
	}
	value := map[string]any{"kind": "List", "items": []item{{"a", 1 << 62}, {"b\x1b[2J", 0}}}
	for format, want := range map[string]string{
		"jsonpath={.kind}": "List", "jsonpath={.none}": "", `jsonpath={range .items[*]}{.name}{"\n"}{end}`: "a\nb\ufffd[2J\n",
		"custom-columns=NAME:.name,SIZE:size": "NAME        SIZE\na           4611686018427387904\nb\ufffd[2J   <none>\n",
	} {
		var b strings.Builder
		if err := Encode(&b, value, format); err != nil || strings.Join(strings.Fields(b.String()), " ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%s: error %v, printed %q, want %q", format, err, b.String(), want)
		}
	}
	var b strings.Builder
	if err := Encode(&b, item{"a", 2}, "custom-columns=NAME:.name"); err != nil || b.String() != "NAME\na\n" {
		t.Errorf("what is no list: error %v, %q", err, b.String())
	}
	if err := Encode(&b, value, "jsonpath={.items[7].name}"); err == nil || strings.ContainsRune(err.Error(), '\n') {
		t.Errorf("an index out of range: %v", err)
	}
}

// What a user writes into an object is one cell of one line, in a table and in columns: it forges
// neither a line nor a column.
func TestCellsStayCells(t *testing.T) {
	const forged = "mine\nweb   free\tyes\x1b[2J\r\u2028\u202e"
	const want = "mine\ufffdweb   free\ufffdyes\ufffd[2J\ufffd\ufffd\ufffd"
	var columns, table strings.Builder
	if err := Encode(&columns, map[string]any{"items": []any{map[string]any{"a": forged, "b": "x"}}}, "custom-columns=A:.a,B:.b"); err != nil {
		t.Fatal(err)
	}
	l := Listing{Table: metav1.Table{ColumnDefinitions: Columns("A", "B"), Rows: []metav1.TableRow{{Cells: []any{forged, "x"}}}}}
	if err := (&Output{}).Print(&table, l); err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]string{"columns": columns.String(), "a table": table.String()} {
		if !regexp.MustCompile(`^A +B\n` + regexp.QuoteMeta(want) + ` +x\n$`).MatchString(got) {
			t.Errorf("%s: printed %q, want the cell %q", what, got, want)
		}
	}
}
