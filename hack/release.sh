#!/usr/bin/env bash
# Makes what a release is made of, in OUT (bin/release): hack/release.sh v1.2.3
#
#   kubectl-clusterip_OS_ARCH.tar.gz   the plugin, for Linux, macOS and Windows on amd64 and arm64
#   clusterip.yaml                     krew's manifest of the plugin
#   install.yaml, proxyagent-*.yaml    manifests with the images of REGISTRY in this version
#   SHA256SUMS                         of all of these
#
# Two runs on one commit give the same sums: archives are in the order of their names, belong to root, and have the time of the commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:-}
if ! [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]]; then
	echo "release.sh: \"$version\" is no version; write one as v1.2.3: make release VERSION=v1.2.3" >&2
	exit 2
fi
out=$(realpath -m "${OUT:-bin/release}") registry=${REGISTRY:-ghcr.io/clusterip-operator}
home=https://github.com/clusterip-operator/clusterip-operator
time=$(git log -1 --format=%ct)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"

# plugin OS ARCH builds the plugin and archives it with the license.
plugin() {
	local os=$1 arch=$2 folder=$work/$1-$2 program=kubectl-clusterip
	[ "$os" != windows ] || program+=.exe
	mkdir -p "$folder"
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -buildvcs=false -trimpath \
		-ldflags "-s -w -X github.com/clusterip-operator/clusterip-operator/internal/version.stamped=$version" -o "$folder/$program" ./cmd/kubectl-clusterip
	cp LICENSE "$folder/"
	tar --sort=name --mtime="@$time" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$folder" -c . | gzip -n9 >"$out/kubectl-clusterip_${os}_$arch.tar.gz"
}

# krew prints the manifest of the plugin.
krew() {
	cat <<-EOF
		apiVersion: krew.googlecontainertools.github.com/v1alpha2
		kind: Plugin
		metadata:
		  name: clusterip
		spec:
		  version: $version
		  homepage: $home
		  shortDescription: Service virtual IPs - ranges, addresses, drift, migration
		  description: |
		    Shows how full ServiceCIDRs are and when they will be, who has which address and why, what is wrong,
		    and mends it from a report; takes a cluster from the legacy bitmap to IPAddresses.
		  platforms:
	EOF
	local os arch archive suffix
	for os in darwin linux windows; do
		for arch in amd64 arm64; do
			archive=kubectl-clusterip_${os}_$arch.tar.gz suffix=
			[ "$os" != windows ] || suffix=.exe
			cat <<-EOF
				  - selector: {matchLabels: {os: $os, arch: $arch}}
				    uri: $home/releases/download/$version/$archive
				    sha256: $(sha256sum "$out/$archive" | cut -d' ' -f1)
				    bin: kubectl-clusterip$suffix
			EOF
		done
	done
}

# manifest FILE FOLDER renders a kustomization with the images of this version.
manifest() {
	local kubectl
	kubectl=$(hack/tools/build.sh kubernetes-1.36:kubectl)/kubectl
	"$kubectl" kustomize "$2" | sed -E "s#image: clusterip-operator/(manager|proxyagent):dev#image: $registry/\1:$version#" >"$out/$1"
	if grep -n 'image: .*:dev' "$out/$1"; then
		echo "release.sh: $1 has an image without a version" >&2
		exit 1
	fi
}

for os in darwin linux windows; do
	for arch in amd64 arm64; do
		plugin "$os" "$arch"
	done
done
krew >"$out/clusterip.yaml"
manifest install.yaml config/default
manifest proxyagent-beside-kube-proxy.yaml config/components/proxyagent-beside-kube-proxy
(cd "$out" && sha256sum -- * >SHA256SUMS)
echo "release $version is in $out"
