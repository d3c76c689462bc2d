#!/usr/bin/env bash
# Tests what the node agent writes with programs and kernels unlike this machine's: hack/matrix.sh [nft|kernels]
#
#   nft      the tests of proxyagent/nftables here, with the program nft of each release of Debian, unpacked into the cache and not installed
#   kernels  those of proxyagent/nftables, proxyagent/iptables/rules and proxyagent/socketlb in virtual machines with the kernels of these releases
#            (hack/vm.sh), the last on that of Debian 11, too, which is the oldest that it takes
# RELEASES limits them. The rows for docs/proxyagent.md are printed at the end; the output of each is in bin/matrix.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=${CLUSTERIP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/clusterip-operator}
out=$PWD/bin/matrix
mkdir -p "$out"
rows=()

# program unpacks the nft of a release and prints a folder with a program that runs it with the libraries of that release.
program() {
	local folder=$cache/debian-nft-$1
	if [ ! -d "$folder" ]; then
		RELEASE=$1 hack/packages.sh amd64 "$folder.new" nftables
		mkdir "$folder.new/only"
		local libraries=$folder/usr/lib/x86_64-linux-gnu:$folder/lib/x86_64-linux-gnu
		# shellcheck disable=SC2016 # the program expands it
		printf '#!/bin/sh\nexec "$(find %q/ -name "ld-linux-x86-64.so.2" | head -1)" --library-path %q %q "$@"\n' "$folder" "$libraries" "$folder/usr/sbin/nft" >"$folder.new/only/nft"
		chmod +x "$folder.new/only/nft"
		mv "$folder.new" "$folder"
	fi
	echo "$folder/only"
}

# verdict is that of a test program's output: how many tests passed, and which failed.
verdict() {
	local failed
	failed=$(grep -oE '^--- FAIL: \S+' "$1" | cut -d' ' -f3 | paste -sd ' ' || true)
	grep -q '^--- PASS' "$1" || { echo "did not run, see $1"; return; }
	echo "$(grep -c '^--- PASS' "$1") passed${failed:+, failed: $failed}"
}

nft() {
	local release path
	go test -c -o "$out/nftables.test" ./proxyagent/nftables
	for release in ${RELEASES:-bookworm trixie sid}; do
		path=$(program "$release")
		(cd proxyagent/nftables && PATH=$path:$PATH "$out/nftables.test" -test.v -test.short) >"$out/nft-$release.log" 2>&1 || true
		rows+=("| nft $("$path/nft" --version | cut -d' ' -f2), Debian $release | $(uname -r) | $(verdict "$out/nft-$release.log") |")
	done
}

kernels() {
	local release package
	go test -c -o "$out/nftables.test" ./proxyagent/nftables
	go test -c -o "$out/rules.test" ./proxyagent/iptables/rules
	go test -c -o "$out/socketlb.test" ./proxyagent/socketlb
	for release in ${RELEASES:-bullseye bookworm bookworm-backports trixie}; do
		for package in nftables iptables/rules socketlb; do
			[[ $release != bullseye || $package = socketlb ]] || continue
			local log=$out/kernel-$release-${package##*/}.log
			CLUSTERIP_SLOWNESS=5 RELEASE=$([ "$release" = bookworm ] || echo "$release") hack/vm.sh bash -c "uname -r; cd proxyagent/$package && $out/${package##*/}.test -test.v -test.short -test.timeout 60m" >"$log" 2>&1 || true
			rows+=("| proxyagent/$package, Debian $release | $(grep -m1 -oaE '[0-9]+\.[0-9]+\.[0-9]+\S*-amd64' "$log" || echo '?') | $(verdict "$log") |")
		done
	done
}

for what in ${1:-nft kernels}; do
	"$what"
done
printf '%s\n' "${rows[@]}"
