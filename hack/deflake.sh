#!/usr/bin/env bash
# Repeats one suite, as CI runs it, until it fails, beside as many busy processes as there are processors: a spec that is red once in CI is red there sooner.
#   hack/deflake.sh test/integration/leaving 'part of a spec'   # the second one may be left out
# TIMES bounds the runs (default 50), BUSY is how many processes spin, SEED the first run's order; each run has the next one. FILTER replaces the
# labels, for specs that CI leaves to `make soak`; RACE=yes has the race detector, as CI has it for packages that lock.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

suite=${1:?names a folder with a suite, test/integration/leaving for one}
export FOCUS=${2:-${FOCUS:-}} FLAGS="-ginkgo.fail-on-empty ${FLAGS:-}" # a part that no spec has shows nothing
[ -d "$suite" ] || { echo "deflake.sh: $suite is no folder" >&2; exit 2; }
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -gcflags=all=-dwarf=false" GOGC=${GOGC:-400}
folder=$PWD/bin/deflake
export CLUSTERIP_PROGRAMS=$folder/programs FILTER=${FILTER:-'!long && !soak && !/ipvs/'} LIMIT=${LIMIT:-30m} REPORTS=$folder
mkdir -p "$folder"

hack/tools/build.sh etcd kubernetes-1.37:kube-apiserver,kubectl,kube-controller-manager,kube-proxy >/dev/null
go build -o "$CLUSTERIP_PROGRAMS/plain/" ./cmd/...
race=()
[ -z "${RACE:-}" ] || race=(env CGO_ENABLED=1 GOFLAGS="$GOFLAGS -race")
"${race[@]}" go test -vet=off -c -o "$folder/suite.test" "./$suite"

spinning=()
end() { [ ${#spinning[@]} -eq 0 ] || kill "${spinning[@]}" 2>/dev/null || true; }
trap end EXIT
for _ in $(seq "${BUSY:-$(nproc)}"); do
	while :; do :; done &
	spinning+=($!)
done

first=${SEED:-$(date +%s)}
for i in $(seq 0 $((${TIMES:-50} - 1))); do
	SEED=$((first + i))
	export SEED
	if ! (cd "$suite" && "$OLDPWD/hack/suite.sh" "$folder/suite.test" -test.short "-test.shuffle=$SEED" "-test.timeout=$LIMIT") >"$folder/last.log" 2>&1; then
		echo "run $((i + 1)) failed: SEED=$SEED, the output is in bin/deflake/last.log" >&2
		grep -E '^ *\[(FAILED|FAIL|PANICKED)\]|^--- FAIL|^panic:' "$folder/last.log" | head -20 >&2
		exit 1
	fi
	echo "run $((i + 1)) passed, SEED=$SEED"
done
