#!/usr/bin/env bash
# Runs the tests: hack/test.sh all|unit|integration|upgrade|e2e
#
# Specs with the label "large" are left to upgrade and e2e; all the others are in all. Those with the label "alone" say what replicas promise as long as they
# have the time to answer each other: nothing else runs beside them.
# A package is an integration package when its tests are Ginkgo specs: those talk to real control planes,
# which are built into the cache first. TIMEOUT bounds one package, PARALLEL how many run side by side.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

what=${1:-all}
flags=(-race -shuffle=on "-timeout=${TIMEOUT:-40m}" "-p=${PARALLEL:-2}")

# packages prints the packages whose test imports do (integration) or do not (unit) name Ginkgo.
packages() {
	local invert=()
	[ "$1" = integration ] || invert=(-v)
	go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
		{ grep "${invert[@]}" ' github.com/onsi/ginkgo/v2' || true; } | cut -d' ' -f1
}

# run tests the packages of one kind; further arguments go to go test.
run() {
	local kind=$1 list
	shift
	list=$(packages "$kind")
	[ -n "$list" ] || { echo "no $kind packages"; return 0; }
	# shellcheck disable=SC2086 # a list of packages
	go test "${flags[@]}" $list "$@"
}

# islands tests the modules under hack/tools that have tests of their own. Benchmarks alone do not count.
islands() {
	local dir status=0
	for dir in hack/tools/*/; do
		grep -qsE '^func (Test|Fuzz|Example)' "$dir"*_test.go || continue
		(cd "$dir" && go test -shuffle=on ./...) || status=1
	done
	return $status
}

integration() {
	hack/tools/build.sh etcd kubernetes-1.36 kubernetes-1.32 >/dev/null
	local colour=()
	[ -t 1 ] || colour=(-ginkgo.no-color)
	local status=0
	run integration -ginkgo.randomize-all "-ginkgo.label-filter=!large && !alone" "${colour[@]}" || status=1
	go test "${flags[@]}" ./test/integration/admission -ginkgo.label-filter=alone "${colour[@]}" || status=1
	return $status
}

# upgrade runs the large specs, of migrations under load and of large clusters.
upgrade() {
	hack/tools/build.sh etcd kubernetes-1.36 kubernetes-1.32 >/dev/null
	go test "${flags[@]}" ./test/integration/upgrade -ginkgo.randomize-all "-ginkgo.label-filter=large" -ginkgo.no-color
}

# e2e runs the large specs of packets between network namespaces, those against the real kube-proxy among them.
e2e() {
	hack/tools/build.sh etcd kubernetes-1.36 >/dev/null
	local list
	list=$(packages integration | grep /test/e2e/)
	# shellcheck disable=SC2086 # a list of packages
	go test "${flags[@]}" $list -ginkgo.randomize-all "-ginkgo.label-filter=large" -ginkgo.no-color
}

# What is missing on a fresh machine is installed, as far as that is possible.
hack/setup.sh >&2 || echo "setup is incomplete, trying all the same" >&2

status=0
case $what in
unit) run unit || status=1 ;;
integration) integration || status=1 ;;
upgrade) upgrade || status=1 ;;
e2e) e2e || status=1 ;;
all)
	run unit || status=1
	islands || status=1
	integration || status=1
	;;
*)
	echo "test.sh: all, unit, integration, upgrade or e2e, not $what" >&2
	exit 2
	;;
esac
exit $status
