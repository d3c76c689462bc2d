#!/usr/bin/env bash
# Runs the tests: hack/test.sh core|all|soak|seeds|version|unit [PACKAGE...]
#
# The labels of Ginkgo's specs and suites decide which runs what:
#   core  the packages without Ginkgo but those of benchmarks and of alerts, with fewer random seeds (-short), and all specs without a label
#   all   all packages, those that share memory between goroutines with the race detector, the specs with Label("all") too, and the tool modules that
#         have tests: for CI
#   soak  the specs with Label("long"), of fifteen seconds and more, Label("soak"), which measure or last, or Label("picked"), in the mode that SEED picks, all our programs with the race detector;
#         test/soak runs it in slices, each with some packages
#   seeds the packages without Ginkgo with all their seeds, those that share memory with the race detector: a slice of test/soak, too
#   version  the suites of test/versions on the Kubernetes that CLUSTERIP_KUBERNETES names, without what is labelled soak, and with the label 1.32 there and only there
#   unit  of core, the packages without Ginkgo
# SEED repeats an order and what happens at random, TIMEOUT bounds one package, PARALLEL how many run side by side. FOCUS leaves those specs whose texts
# match, SKIP those whose texts do not, FILTER replaces the labels, FLAGS are further flags of the test programs. Packages that are named are the only ones that run.
# The times of all specs are left in bin/ci/report.json, those of version in bin/versions; REPORT names a file for another copy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

what=${1:-core}
shift || true
seed=${SEED:-$(date +%s)}
reports=$PWD/bin/ci/reports
report=bin/ci/report.json

# What nodes need besides is built by the suite that has some.
cluster=kube-apiserver,kubectl,kube-controller-manager,kube-proxy

# Suites wait some of the time: four side by side keep two cores busy, three where packages are compiled with the race detector as well.
case $what in
core) filter='!all && !long && !soak && !/ipvs/' parallel=4 timeout=15m upstream=(kubernetes-1.37:kube-apiserver,kubectl) ;;
all) filter='!long && !soak && !/ipvs/' parallel=3 timeout=30m upstream=("kubernetes-1.37:$cluster" kubernetes-1.32) ;;
soak) filter='(soak || long || picked) && !/ipvs/' parallel=1 timeout=80m upstream=("kubernetes-1.37:$cluster" kubernetes-1.32) ;;
version)
	minor=${CLUSTERIP_KUBERNETES:?names the minor release of Kubernetes, 1.34 for one}
	filter='!soak && !1.32 && !/ipvs/' parallel=3 timeout=1h upstream=("kubernetes-1.37:$cluster" "kubernetes-$minor:kube-apiserver")
	if [ "$minor" = 1.32 ]; then # specs with this label ask for it themselves, and for others beside it
		filter='!soak && 1.32'
		unset CLUSTERIP_KUBERNETES
	fi
	reports=$PWD/bin/versions/$minor report=bin/versions/$minor.json
	;;
seeds) filter='' parallel=2 timeout=1h upstream=() ;;
unit) filter='' parallel=2 timeout=10m upstream=() ;;
*)
	echo "test.sh: core, all, soak, seeds, version or unit, not $what" >&2
	exit 2
	;;
esac

# packages prints import path and folder of the packages that do (ginkgo) or do not (unit) test with Ginkgo. One that imports its types alone has no
# specs.
packages() {
	local invert=()
	[ "$1" = ginkgo ] || invert=(-v)
	go list -f '{{.ImportPath}} {{.Dir}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
		{ grep "${invert[@]}" ' github.com/onsi/ginkgo/v2 ' || true; } | cut -d' ' -f1,2
}

# suites prints the packages that have specs for $what, so that no others are linked. A label of a whole suite is on its RunSpecs.
suites() {
	local package dir
	[ "$what" != version ] || { go run ./test/versions suites "$minor"; return; }
	packages ginkgo | while read -r package dir; do
		case $what in
		core) ! grep -qsE 'RunSpecs\(.*Label\("(all|long|soak)"' "$dir"/*_test.go ;;
		all) ! grep -qsE 'RunSpecs\(.*Label\("(long|soak)"' "$dir"/*_test.go ;;
		soak) grep -qsE 'Label\("(long|soak)"|LabelsOf\(' "$dir"/*_test.go ;;
		esac && echo "$package" || true
	done
}

# tool_modules tests the modules under hack/tools that have tests of their own. Benchmarks alone do not count.
tool_modules() {
	local dir status=0
	for dir in hack/tools/*/; do
		grep -qsE '^func (Test|Fuzz|Example)' "$dir"*_test.go || continue
		(cd "$dir" && go test "-shuffle=$seed" ./...) || status=1
	done
	return $status
}

# With the flags of hack/tools/build.sh and of `make run` nothing is compiled twice, and without debugging information test programs are linked
# in half the time. The race detector needs a C compiler, and what it is for compiled again: packages that lock or count, and before a release the
# programs that specs start.
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -gcflags=all=-dwarf=false"
case $what in
all) hack/setup.sh all ;;
soak)
	export CLUSTERIP_RACE=yes
	hack/setup.sh all
	;;
*) hack/setup.sh ;;
esac >&2 || echo "setup is incomplete, trying all the same" >&2 # what is missing is installed, as far as that is possible

# Specs find our own programs built (test/framework/build.go): a build takes longer than their deadlines.
programs() {
	export CLUSTERIP_PROGRAMS=$PWD/bin/programs
	go build -o "$CLUSTERIP_PROGRAMS/plain/" ./cmd/...
	[ -z "${CLUSTERIP_RACE:-}" ] || CGO_ENABLED=1 go build -race -o "$CLUSTERIP_PROGRAMS/race/" ./cmd/...
}

if [[ $what != unit && $what != seeds ]]; then
	[[ $what != all && $what != soak ]] || upstream+=(promtool chart helm)
	hack/tools/build.sh etcd "${upstream[@]}" >/dev/null
	[ "$what" != core ] || export CLUSTERIP_BUILT="etcd ${upstream[*]}" # specs that need more are not for newcomers (test/framework/assets.go)
	programs
fi

echo "== $what, SEED=$seed"
rm -rf "$reports" "$report"
mkdir -p "$reports" "$(dirname "$report")"

# longest_first is for packages of a minute and more, of which none should begin last, and run alone.
longest_first() {
	local long='/(proxyagent/(ip|nf)tables|test/(tour|e2e/(allocations|flows)|integration/(behaviour|bitmap|defects|migration|plugin|renumber|steering)))$'
	sort -s -k1,1 <(sed -E "s#^.*$long#1 &#;t;s#^#2 #") | cut -d' ' -f2
}

list=()
case $what in
soak | version) mapfile -t list < <(suites) ;;
seeds) mapfile -t list < <(packages unit | cut -d' ' -f1) ;;
all) mapfile -t list < <((suites; packages unit | cut -d' ' -f1) | longest_first) ;;
core) mapfile -t list < <((suites; packages unit | cut -d' ' -f1 | grep -vE '/test/bench|/config/prometheus$') | longest_first) ;;
unit) mapfile -t list < <(packages unit | cut -d' ' -f1 | grep -vE '/test/bench|/config/prometheus$') ;;
esac
[ $# = 0 ] || mapfile -t list < <(go list "$@")
[ ${#list[@]} -gt 0 ] || { echo "test.sh: there are no packages to test: nothing is shown" >&2; exit 1; }
filter=${FILTER:-$filter}
short=true
[[ $what != soak && $what != seeds ]] || short=false

# What is tested starts hundreds of API servers. Collecting garbage less often saves an eighth of the processor time, and memory is there.
export GOGC=${GOGC:-400}

# run tests packages with some flags. Vet is a step of hack/verify.sh. Each test program is started by hack/suite.sh, which adds Ginkgo's flags
# where they are understood.
limit=${TIMEOUT:-$timeout}
run() {
	REPORTS=$reports FILTER=$filter SEED=$seed LIMIT=$limit go test -vet=off "-short=$short" "-shuffle=$seed" "-timeout=$limit" "-p=${PARALLEL:-$parallel}" \
		-exec "$PWD/hack/suite.sh" "$@" || status=1
}

# shared prints those of some packages that import locks or atomic values, and the one that runs all controllers. Those of test/ only start programs.
shared() { go list -f '{{.ImportPath}} {{join .Imports " "}} ' "$@" | grep -v '/test/' | grep -E '/controllers | (sync|sync/atomic|golang.org/x/sync/[a-z]+) ' | cut -d' ' -f1; }

status=0
if [[ $what = all || $what = soak || $what = seeds ]]; then
	mapfile -t racing < <(shared "${list[@]}")
	[ ${#racing[@]} = 0 ] || CGO_ENABLED=1 run -race "${racing[@]}"
	mapfile -t list < <(printf '%s\n' "${list[@]}" | grep -vxFf <(printf '%s\n' "${racing[@]:-}"))
fi
[ ${#list[@]} = 0 ] || run "${list[@]}"
[[ $what != all || $# != 0 ]] || CLUSTERIP_SOCKETLB=all run ./test/e2e/flows # once more, with connections translated at connect()
[[ $what != all || $# != 0 ]] || tool_modules || status=1
go run ./test/report "$reports" "$report" || status=1
[ -z "${REPORT:-}" ] || { mkdir -p "$(dirname "$REPORT")" && cp "$report" "$REPORT"; }
exit $status
