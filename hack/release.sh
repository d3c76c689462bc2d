#!/usr/bin/env bash
# Makes what a release is made of, in OUT (bin/release): hack/release.sh v1.2.3
#
#   kubectl-clusterip_OS_ARCH.tar.gz   the plugin, for Linux, macOS and Windows on amd64 and arm64
#   clusterip.yaml                     krew's manifest of the plugin
#   manager.tar, proxyagent.tar        images for amd64 and arm64, as OCI archives; to be pushed to REGISTRY
#   install.yaml, uninstall.yaml,      manifests with these images by version and digest
#   proxyagent-*.yaml
#   clusterip-operator-1.2.3.tgz       the Helm chart, with the manager's image by its digest
#   chart.tar                          the same as an OCI layout; to be pushed to REGISTRY/charts
#   PROGRAM.cdx.json                   what each program is made of (CycloneDX): Go modules, and the packages of Debian in the agent's image
#   provenance.intoto.json             how all of these were made: the commit, the version and settings of Go, and what went in, by digests (in-toto, SLSA provenance v1)
#   SHA256SUMS, SHA256SUMS.minisig     of all of these, and the signature of that by minisign, with the version in it
#
# The secret key is the file that MINISIGN_KEY_FILE names, or the value of MINISIGN_KEY; MINISIGN_PASSWORD decrypts it. Users verify with release.pub (PUBLIC_KEY),
# so another key is refused. Without a key no release is made: nothing is published unsigned because a variable was forgotten. UNSIGNED=yes makes one to look at.
#
# Two runs on one commit give the same sums: archives are in the order of their names, belong to root, and have the time of the commit or none. Only the
# packages of Debian may be newer in a later run, and with them the agent's image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:-}
if ! [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$ ]]; then
	echo "release.sh: \"$version\" is no version; write one as v1.2.3: make release VERSION=v1.2.3" >&2
	exit 2
fi
# What differs from the commit would be in the release, and not in what the commit says of it.
changes=$(git status --porcelain)
if [ -n "$changes" ]; then
	echo "release.sh: the tree differs from its commit (git status): commit first, a release is made of a commit" >&2
	exit 1
fi
# A version names one commit for ever: krew, registries and users take its digests for settled.
tagged=$(git rev-parse -q --verify "refs/tags/$version^{commit}" || true)
if [ -n "$tagged" ] && [ "$tagged" != "$(git rev-parse HEAD)" ]; then
	echo "release.sh: $version is the tag of another commit, $tagged: check that out, or release another version" >&2
	exit 1
fi
# No other program that a release runs finds the key in its environment.
key=${MINISIGN_KEY:-} key_file=${MINISIGN_KEY_FILE:-} password=${MINISIGN_PASSWORD:-} public=${PUBLIC_KEY:-release.pub}
unset MINISIGN_KEY MINISIGN_KEY_FILE MINISIGN_PASSWORD
signer=$(hack/tools/build.sh sign)/sign
sign() { MINISIGN_KEY=$key MINISIGN_KEY_FILE=$key_file MINISIGN_PASSWORD=$password "$signer" "$public" "$@"; }
if [ "${UNSIGNED:-}" != yes ] && ! sign; then
	echo "release.sh: a release is signed (CONTRIBUTING.md says how the key is made); UNSIGNED=yes makes one to look at, which is not to be published" >&2
	exit 1
fi

out=$(realpath -m "${OUT:-bin/release}") registry=${REGISTRY:-ghcr.io/clusterip-operator}
home=https://github.com/clusterip-operator/clusterip-operator
time=$(git log -1 --format=%ct) commit=$(git rev-parse HEAD)
flags="-s -w -X github.com/clusterip-operator/clusterip-operator/internal/version.stamped=$version"
export GOFLAGS="-trimpath -buildvcs=false" # and no others, which would be part of the programs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sbom=$(hack/tools/build.sh sbom)/sbom
rm -rf "$out"
mkdir -p "$out"

# plugin OS ARCH builds the plugin and archives it with the license.
plugin() {
	local os=$1 arch=$2 folder=$work/$1-$2 program=kubectl-clusterip
	[ "$os" != windows ] || program+=.exe
	mkdir -p "$folder"
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -buildvcs=false -trimpath -ldflags "$flags" -o "$folder/$program" ./cmd/kubectl-clusterip
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

# images writes the images, and leaves what is in them in $work/images.
images() {
	OUT=$work/images VERSION=$version IMG=$registry/manager:$version PROXYAGENT_IMG=$registry/proxyagent:$version hack/images.sh
	mv "$work"/images/{manager,proxyagent}.tar "$out/"
}

# digest prints the digest of an image, by which a registry serves it for all architectures. Its archive's index names nothing else.
digest() { tar -xOf "$out/$1.tar" index.json | grep -oE 'sha256:[0-9a-f]{64}'; }

# manifest FILE FOLDER renders a kustomization with the images of this version.
manifest() {
	"$kubectl" kustomize "$2" | sed -E \
		-e "s#image: clusterip-operator/manager:dev#image: $registry/manager:$version@$manager#" \
		-e "s#image: clusterip-operator/proxyagent:dev#image: $registry/proxyagent:$version@$proxyagent#" >"$out/$1"
	if grep -n 'image: ' "$out/$1" | grep -v '@sha256:'; then
		echo "release.sh: $1 has an image without a digest" >&2
		exit 1
	fi
}

for os in darwin linux windows; do
	for arch in amd64 arm64; do
		plugin "$os" "$arch"
	done
done
krew >"$out/clusterip.yaml"
"$sbom" "$version" "$out/kubectl-clusterip.cdx.json" "$work"/*-{amd64,arm64}/kubectl-clusterip*

images
"$sbom" "$version" "$out/manager.cdx.json" "$work"/images/*/manager/manager
"$sbom" -packages "$work/images/amd64/packages" -packages "$work/images/arm64/packages" "$version" "$out/proxyagent.cdx.json" "$work"/images/*/proxyagent/proxyagent*

kubectl=$(hack/tools/build.sh kubernetes-1.37:kubectl)/kubectl
manager=$(digest manager)
proxyagent=$(digest proxyagent)
manifest install.yaml config/default
manifest uninstall.yaml config/components/uninstall
for name in beside-kube-proxy replace-kube-proxy uninstall; do
	manifest "proxyagent-$name.yaml" "config/components/proxyagent-$name"
done
OUT=$work/chart VERSION=$version IMG=$registry/manager:$version@$manager hack/chart.sh
mv "$work"/chart/*.t* "$out/"

# materials prints the digests of what a release is made of beside the commit: sums of all modules, those of the tools too, and the packages of Debian. No image is
# based on another one.
materials() {
	sha256sum go.mod go.sum hack/tools/{chart,images,kubernetes-1.37,provenance,sbom,sign}/go.{mod,sum}
	cat "$work"/images/*/packages/var/lib/dpkg/sha256sums | LC_ALL=C sort -uk2
}

materials >"$work/materials"
(cd "$out" && sha256sum -- *) >"$work/subjects"
"$(hack/tools/build.sh provenance)/provenance" -materials "$work/materials" -parameter "registry=$registry" -setting "ldflags=$flags" \
	"$home" "$commit" "$version" "$work/subjects" "$out/provenance.intoto.json" "$work"/*-{amd64,arm64}/kubectl-clusterip* "$work"/images/*/{manager,proxyagent}/*
(cd "$out" && sha256sum -- * >SHA256SUMS)
if [ "${UNSIGNED:-}" = yes ]; then
	echo "release $version is in $out, UNSIGNED: it is not to be published"
	exit
fi
sign "$out/SHA256SUMS" "clusterip-operator $version"
echo "release $version is in $out, signed with the key of $public"
