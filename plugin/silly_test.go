package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterip-operator/clusterip-operator/plugin/internal/plugintest"
)

// complete has, by command, what makes a command line of it that lacks nothing but a cluster.
func complete(t *testing.T) map[string][]string {
	t.Helper()
	plan := func(name, text string) string { return "--from=" + inFile(t, name+".yaml", text) }
	renumbering := plan("renumbering", "apiVersion: clusterip-operator.io/v1alpha1\nkind: RenumberingPlan\ncluster: x\nfrom: [10.0.0.0/24]\nto: [10.1.0.0/24]\nkeep: none\nservices: []")
	const etcd = "--etcd-servers=http://127.0.0.1:1"
	return map[string][]string{
		"ranges": nil, "addresses": nil, "addresses show": {"10.96.0.10"}, "map": {"kubernetes"}, "why": {"svc/web"}, "status": nil, "check": nil, "bundle": nil,
		"repair": {plan("report", "kind: CheckReport\nitems: []")}, "console": {"--no-browser"},
		"renumber plan": {"--range=a", "--to=b"}, "renumber run": {renumbering}, "renumber status": {renumbering}, "renumber kept": {}, "renumber rollback": {renumbering},
		"dual-stack plan": nil, "dual-stack run": {plan("dualstack", "apiVersion: dualstack.clusterip-operator.io/v1alpha1\nkind: DualStackPlan\ncluster: x\nservices: []")},
		"node-ports": nil, "reserve": {"--from-services"},
		"migrate check": nil, "migrate plan": nil, "migrate run": nil, "migrate verify": nil, "migrate seed": {"--etcd", etcd}, "migrate unseed": {"--etcd", etcd},
		"migrate rollback": {"--yes", etcd}, "migrate finalize": {"--yes", etcd},
	}
}

func inFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// silly is what users, scripts and copied texts make of a command line.
type silly struct {
	args []string
	want string // a piece of the error
	flag string // only commands with this flag
}

// sillyInputs is what is put behind a complete command line.
func sillyInputs(t *testing.T) map[string]silly {
	t.Helper()
	folder := t.TempDir()
	const words = "|neither a command nor a flag|give one |no ServiceCIDR|reading the kubeconfig" // ranges takes names
	return map[string]silly{
		"nothing":                                  {nil, "reading the kubeconfig", ""},
		"a flag of another program":                {[]string{"--colour"}, "unknown flag: --colour; try `kubectl clusterip", ""},
		"a letter that is no flag":                 {[]string{"-Z"}, "unknown shorthand flag: 'Z' in -Z; try `", ""},
		"a flag without its value":                 {[]string{"--namespace"}, "flag needs an argument: --namespace; try `", ""},
		"a flag without a name":                    {[]string{"--=x"}, "bad flag syntax: --=x", ""},
		"two words too much":                       {[]string{"now", "please"}, words, ""},
		"empty words":                              {[]string{"", ""}, words, ""},
		"a word of a shell":                        {[]string{"; rm -rf /", "$(reboot)"}, words, ""},
		"a path":                                   {[]string{"../../etc/passwd", "x"}, words, ""},
		"words that steer a terminal":              {[]string{"\x1b[2J\x07", "\u202e"}, words, ""},
		"bytes that are no text":                   {[]string{"\xff\xfe\x00", "\x80"}, words, ""},
		"a book":                                   {[]string{strings.Repeat("x", 1<<20), "\n\n"}, words, ""},
		"a flag as long as a book":                 {[]string{"--" + strings.Repeat("x", 1<<20)}, "unknown flag: --xxx", ""},
		"a namespace that is none":                 {[]string{"--namespace=Bad_NS"}, `--namespace: no namespace can be called "Bad_NS"`, ""},
		"a namespace as a path":                    {[]string{"--namespace=../kube-system"}, "--namespace: no namespace can be called", ""},
		"a namespace of the operator that is none": {[]string{"--operator-namespace=Bad_NS"}, `--operator-namespace: no namespace can be called "Bad_NS"`, "operator-namespace"},
		"a path for the operator":                  {[]string{"--operator-namespace=../x"}, "--operator-namespace: no namespace can be called", "operator-namespace"},
		"less than no time":                        {[]string{"--wait=-1s"}, `--wait must not be negative|invalid argument "-1s"`, "wait"},
		"a format of kubectl's":                    {[]string{"-o", "jsonpath-as-json={.items}"}, `--output "jsonpath-as-json={.items}" is none of `, "output"},
		"a namespace as a parent":                  {[]string{"--parent=namespace/x"}, `--parent: "namespace/x" has no addresses; name a Service or a policy`, "parent"},
		"a policy in a namespace":                  {[]string{"--parent=policy/x", "-n", "y"}, "--parent: a policy is in no namespace; leave out --namespace", "parent"},
		"a kubeconfig that is not":                 {[]string{"--kubeconfig=/none"}, "reading the kubeconfig", ""},
		"a folder for a kubeconfig":                {[]string{"--kubeconfig=" + folder}, "reading the kubeconfig", ""},
		"a context that is not":                    {[]string{"--context=nowhere"}, "reading the kubeconfig", ""},
		"a time that is none":                      {[]string{"--server=http://127.0.0.1:1", "--request-timeout=soon"}, "timeout", ""},
		"an address that is none":                  {[]string{"--server=:://x"}, "://x", ""},
		"a server that is away":                    {[]string{"--server=http://127.0.0.1:1"}, "127.0.0.1:1", ""},
		"a truth that is none":                     {[]string{"--insecure-skip-tls-verify=maybe"}, "invalid argument \"maybe\"", ""},
		"a format of another program":              {[]string{"--output=xml"}, `--output "xml" is none of `, "output"},
		"no format of a letter":                    {[]string{"-o"}, "flag needs an argument: 'o' in -o", "output"},
		"a template that ends early":               {[]string{"-o", "jsonpath={.items["}, "--output", "output"},
		"columns without a path":                   {[]string{"-o", "custom-columns=NAME"}, "--output", "output"},
		"an output in no folder":                   {[]string{"-o", "/none/there/x.yaml"}, "--output", "output"},
		"a file that is not":                       {[]string{"--from=/none"}, "reading /none: no such file", "from"},
		"a folder for a file":                      {[]string{"--from=" + folder}, "is a directory", "from"},
		"a file of anything":                       {[]string{"--from=" + inFile(t, "x", "\x00\xff\x1b[2J")}, "reading ", "from"},
		"an empty file":                            {[]string{"--from=" + inFile(t, "x", "")}, "it names no kind", "from"},
		"a file of another kind":                   {[]string{"--from=" + inFile(t, "x", "kind: List\nmetadata: {}\nitems: []")}, "is of kind List, not ", "from"},
		"a plan of another command":                {[]string{"--from=" + inFile(t, "x", "apiVersion: v1\nkind: MigrationPlan\nsteps: []")}, "`kubectl clusterip migrate run --from ", "from"},
		"a number that is none":                    {[]string{"--workers=many"}, `invalid argument "many" for "--workers"`, "workers"},
		"less work than none":                      {[]string{"--workers=-1"}, "--workers must be 1 or more", "workers"},
		"a selector that is none":                  {[]string{"--selector=a==b==c"}, "--selector: ", "selector"},
		"a picture in no folder":                   {[]string{"--svg=/none/x.svg"}, "--svg /none/x.svg: there is no folder /none; make it", "svg"},
		"a band of another program":                {[]string{"--band=upper"}, `--band "upper" is none of static, dynamic`, "band"},
		"a parent that is none":                    {[]string{"--parent=//"}, "--parent: ", "parent"},
		"labels that are none":                     {[]string{"--labels=a=b=c"}, "--labels: ", "labels"},
		"an archive of another kind":               {[]string{"--output=x.zip"}, `--output "x.zip" is none of `, "output"},
		"less of a log than none":                  {[]string{"--tail=-1"}, "--tail must not be negative", "tail"},
		"fewer agents than none":                   {[]string{"--agents=-1"}, "--agents must not be negative", "agents"},
		"a context of a fleet that is not":         {[]string{"--contexts=nowhere"}, `--contexts: the kubeconfig has no context "nowhere"`, "contexts"},
		"an empty context":                         {[]string{"--contexts=,"}, `--contexts: the kubeconfig has no context ""`, "contexts"},
		"contexts and a context":                   {[]string{"--contexts=a", "--context=b"}, "--contexts and --context both say which cluster is meant", "contexts"},
		"contexts that steer a terminal":           {[]string{"--contexts=\x1b[2J"}, "the kubeconfig has no context", "contexts"},
		"a port that is none":                      {[]string{"--port=99999"}, "invalid argument", "port"},
		"less patience than none":                  {[]string{"--drain=-1s"}, "must not be negative", "drain"},
		"who keeps what, and is none":              {[]string{"--keep=tight"}, `--keep "tight" is none of agent, externalIPs, service, none`, "keep"},
		"an archive in no folder":                  {[]string{"--archive=/none/x"}, "--archive /none/x: there is no folder /none", "archive"},
		"a Service without a name":                 {[]string{"--include=web"}, `--include: "web" names no Service`, "include"},
		"node ports that are none":                 {[]string{"--node-port-range=0-70000"}, `"0-70000" is no range of ports`, "node-port-range"},
		"a range that is none":                     {[]string{"--range=10.0.0.0/33"}, `"10.0.0.0/33" is neither the name|"10.0.0.0/33" names no ServiceCIDR`, "range"},
		"a name that no policy can have":           {[]string{"--name=Bad_Name"}, `--name: no policy can be called "Bad_Name" here`, "name"},
		"a range of a family too wide":             {[]string{"--to=10.0.0.0/33"}, `--to: "10.0.0.0/33" is neither the name`, "to"},
	}
}

// TestSillyInput holds every command against every silly input that it can be given: it ends with
// 2, prints nothing, and says in one line what is wrong.
func TestSillyInput(t *testing.T) {
	lines, inputs := complete(t), sillyInputs(t)
	if len(inputs) < 20 {
		t.Errorf("only %d kinds of input", len(inputs))
	}
	each(New((&plugintest.Printed{}).Streams()), func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "kubectl clusterip ")
		line, ok := lines[path]
		if !ok {
			t.Errorf("what does a command line of %s need?", path)
			return
		}
		seen := 0
		for name, in := range inputs {
			if in.flag != "" && cmd.Flags().Lookup(in.flag) == nil || path == "migrate run" && strings.Contains(in.want, "migrate run") { // which it would carry out
				continue
			}
			seen++
			mustRefuse(t, name, slices.Concat(strings.Fields(path), line, in.args), in.want)
		}
		if seen < 20 {
			t.Errorf("only %d kinds of input for %s", seen, path)
		}
	})
}

// each calls do for the commands that need a cluster.
func each(cmd *cobra.Command, do func(*cobra.Command)) {
	for _, sub := range cmd.Commands() {
		if sub.Name() == "version" || sub.Name() == "completion" || sub.Name() == "help" {
			continue
		}
		if sub.Flags().Lookup("output") != nil || !sub.HasSubCommands() {
			do(sub)
		}
		each(sub, do)
	}
}

func mustRefuse(t *testing.T, name string, args []string, want string) {
	t.Helper()
	code, p := command(t, args...)
	line := strings.Join(args, " ")
	line = line[:min(len(line), 200)]
	text, ended := strings.CutSuffix(p.Err.String(), "\n")
	if code != 2 || p.Out.Len() > 0 {
		t.Errorf("%s: %q ends with %d, prints %q", name, line, code, p.Out.String())
	}
	if !ended || !strings.HasPrefix(text, "error: ") || len(text) > 2100 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		t.Errorf("%s: %q says not in one line what is wrong: %.300q", name, line, text)
	}
	if !slices.ContainsFunc(strings.Split(strings.TrimPrefix(want, "|"), "|"), func(one string) bool { return strings.Contains(text, one) }) {
		t.Errorf("%s: %q says %.300q, want %q", name, line, text, want)
	}
}

// TestEmptyFlags gives each command each of its flags with an empty value, as a script does whose
// variable is not set: the command may not go on as if the flag were not there, but for -o.
func TestEmptyFlags(t *testing.T) {
	lines := complete(t)
	each(New((&plugintest.Printed{}).Streams()), func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "kubectl clusterip ")
		try := func(f *pflag.Flag) {
			if f.Name == "output" { // as in kubectl
				return
			}
			line := slices.DeleteFunc(slices.Clone(lines[path]), func(word string) bool { return strings.HasPrefix(word, "--"+f.Name+"=") })
			mustRefuse(t, "an empty flag", slices.Concat(strings.Fields(path), line, []string{"--" + f.Name + "="}), "--"+f.Name)
		}
		cmd.LocalFlags().VisitAll(try)
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			if cmd.Root().PersistentFlags().Lookup(f.Name) == nil { // kubectl's are as kubectl takes them
				try(f)
			}
		})
	})
}
