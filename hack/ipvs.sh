#!/usr/bin/env bash
# Tests mode ipvs of the node agent in a virtual machine, whose kernel has IPVS: hack/ipvs.sh [short|kube-proxy]
#
# The tests of proxyagent/ipvs that send packets have the build tag ipvs, specs of test/e2e the label ipvs: nothing else runs them. short leaves out these specs, which take an API server in there.
# kube-proxy runs the flows with the real kube-proxy in mode ipvs instead (label kube-proxy-ipvs), which proves them, and nothing else; `make soak` runs both.
# SUITES limits the specs to some of "flows robustness cleanup", FOCUS to those whose names match.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=$PWD/bin/ipvs
mkdir -p "$out"
run=() label=ipvs slowness=5 suites=${SUITES:-flows robustness cleanup}
case ${1:-} in
short) suites= ;;
kube-proxy) label=kube-proxy-ipvs slowness=20 suites=flows ;; # a sync of kube-proxy runs a hundred programs
esac
export CLUSTERIP_SLOWNESS=$slowness
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -gcflags=all=-dwarf=false" # those of hack/test.sh, so that nothing is compiled twice
if [ "$label" = ipvs ]; then
	go test -c -tags ipvs -o "$out/ipvs.test" ./proxyagent/ipvs
	run+=("cd proxyagent/ipvs && $out/ipvs.test -test.v -test.timeout=30m")
fi
if [ -n "$suites" ]; then
	hack/tools/build.sh etcd kubernetes-1.37:kube-apiserver,kubectl,kube-proxy >/dev/null
	export CLUSTERIP_PROGRAMS=$PWD/bin/programs
	go build -o "$CLUSTERIP_PROGRAMS/plain/" ./cmd/...
fi
for suite in $suites; do
	go test -c -o "$out/$suite.test" "./test/e2e/$suite"
	run+=("cd test/e2e/$suite && $out/$suite.test -ginkgo.no-color -ginkgo.v -ginkgo.fail-on-empty -ginkgo.timeout=3h -ginkgo.label-filter=$label -ginkgo.focus='${FOCUS:-}'")
done
command=$(printf '(%s) || status=1; ' "${run[@]}")
# While the kernel loads one of these two schedulers itself, IPVS is locked, and a namespace that goes just then waits for IPVS, and the module for that.
MODULES="ip_vs ip_vs_lblc ip_vs_lblcr" exec hack/vm.sh bash -c "status=0; ${command}exit \$status"
