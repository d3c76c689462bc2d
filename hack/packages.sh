#!/usr/bin/env bash
# Unpacks packages of Debian 12 with what they depend on: hack/packages.sh ARCH FOLDER PACKAGE...
# RELEASE has them come from another release of Debian, such as trixie, or from bookworm-backports.
#
# It does so for any architecture (amd64, arm64), and needs no root: nothing is installed, and the packages of the machine are neither asked nor changed.
set -euo pipefail

arch=$1 folder=$2
shift 2
release=bookworm

# shellcheck source=/dev/null
. /etc/os-release
if [ "${VERSION_CODENAME:-}" != "$release" ] || ! command -v apt-get >/dev/null; then
	echo "packages: $* are unpacked by the apt of Debian $release, and this is ${PRETTY_NAME:-another system}; run it in a container of debian:12, as the Dockerfile does" >&2
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{state/lists/partial,cache/archives/partial}
touch "$work/status" # of a system without any package, so that all that is needed is fetched

from=()
if [ "${RELEASE:-$release}" != "$release" ]; then
	for suite in "$RELEASE" "${RELEASE%-backports}"; do
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main"
	done | sort -u >"$work/sources.list"
	from=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "APT::Default-Release=$RELEASE")
fi

apt() {
	apt-get -qq "${from[@]}" -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" -o Dir::Log="$work" \
		-o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=true "$@"
}
apt update
apt --no-install-recommends --yes --download-only install "$@" >/dev/null

mkdir -p "$folder/var/lib/dpkg/status.d"
(cd "$work/cache/archives" && sha256sum -- *.deb) >"$folder/var/lib/dpkg/sha256sums" # for the provenance of a release
for package in "$work"/cache/archives/*.deb; do
	dpkg-deb --extract "$package" "$folder"
	# Where scanners of images look for what is in one that has no package manager.
	dpkg-deb --field "$package" >"$folder/var/lib/dpkg/status.d/$(dpkg-deb --field "$package" Package)"
done
