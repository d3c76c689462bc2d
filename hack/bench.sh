#!/usr/bin/env bash
# Measures ours beside upstream's in one run, so that the ratios mean something on any machine.
# COUNT repeats each micro benchmark (benchstat wants six or more); results are kept in bin/bench.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

count=${COUNT:-6}
out=$PWD/bin/bench
mkdir -p "$out"
benchstat=$(hack/tools/build.sh benchstat)/benchstat

echo "== our allocator ($count runs)"
go test -run '^$' -bench . -benchmem -count "$count" ./allocator/... | tee "$out/ours.txt"
echo "== upstream's allocators ($count runs; the first build compiles k8s.io/kubernetes)"
(cd hack/tools/peer-allocator && go test -run '^$' -bench . -benchmem -timeout 60m -count "$count" ./...) | tee "$out/upstream.txt"
echo "== side by side"
"$benchstat" -ignore pkg -col /impl "$out/ours.txt" "$out/upstream.txt" | tee "$out/benchstat.txt"

echo "== through the API server"
hack/tools/build.sh etcd kubernetes-1.37:kube-apiserver,kubectl,kube-controller-manager,kube-proxy >/dev/null
go run ./test/bench
echo "== a world of thousands"
go run ./test/bench --only scale
echo "== a million Services, without a cluster"
go run ./test/bench --only million
