#!/usr/bin/env bash
# Builds the programs of tool islands once into the cache and prints the folder of each.
#
#   hack/tools/build.sh ISLAND...
#
# An island is a folder beside this file with a go.mod of its own; its `tool` lines say what is built.
# The folder's name carries a digest of go.mod, go.sum and the Go version, so a bump builds anew and
# old versions stay usable. Control planes are stamped with the version that go.mod requires.
# Set CLUSTERIP_CACHE to keep the programs elsewhere than in the user's cache.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CLUSTERIP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/clusterip-operator}

# stamps prints the linker flags that give a Kubernetes program its version.
stamps() {
	local version
	version=$(awk '{ sub(/\/\/.*/, ""); sub(/^require /, "") } $1 == "k8s.io/kubernetes" && NF == 2 { print $2 }' go.mod | head -1)
	[ -n "$version" ] || return 0
	local package=k8s.io/component-base/version major minor
	IFS=. read -r major minor _ <<<"${version#v}"
	printf -- '-X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s -X %s.gitTreeState=clean' \
		"$package" "$version" "$package" "$major" "$package" "$minor" "$package"
}

build() {
	local island=$1 digest out
	[ -f "$here/$island/go.mod" ] || { echo "build.sh: no island $island under hack/tools" >&2; exit 2; }
	cd "$here/$island"
	digest=$( (cat go.mod go.sum; find . -name '*.go' -exec cat {} +; go env GOVERSION GOARCH; stamps) | sha256sum | cut -c1-12)
	out=$cache/$island-$digest
	if [ ! -f "$out/.done" ]; then
		mkdir -p "$out"
		# One builder at a time: two cores build one control plane, not two.
		exec 9>"$cache/.lock"
		flock 9
		if [ ! -f "$out/.done" ]; then
			echo "building $island into the cache (once; a control plane takes minutes)" >&2
			local start=$SECONDS packages
			packages=$(go list tool)
			[ "$(find . -maxdepth 1 -name '*.go' | wc -l)" = 0 ] || packages="$packages ."
			# shellcheck disable=SC2086 # a list of packages
			CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $(stamps)" -o "$out/" $packages
			# The main package of etcd is called after its module path; everyone else calls it etcd.
			[ "$island" != etcd ] || mv "$out/server" "$out/etcd" 2>/dev/null || mv "$out/v3" "$out/etcd"
			touch "$out/.done"
			echo "built $island in $((SECONDS - start)) s" >&2
		fi
		exec 9>&-
	fi
	echo "$out"
}

mkdir -p "$cache"
for island in "$@"; do
	(build "$island")
done
