#!/usr/bin/env bash
# Checks what building and testing needs: Go 1.26, make, git, and for the tests with real packets (they also need root) the programs that
# they look at the kernel with. `setup.sh all` checks what more `make test-all` and `make soak` need: a C compiler for the race detector, a browser,
# and minisign. Installs only these and those programs, only what is missing, and only as root on a Debian system.
set -euo pipefail

complaints=()

check_go() {
	command -v go >/dev/null || { complaints+=("Go is missing: install Go 1.26 or later from https://go.dev/dl/"); return; }
	local version
	version=$(go env GOVERSION)
	[ "$(printf '%s\n' go1.26 "$version" | sort -V | head -1)" = go1.26 ] ||
		complaints+=("Go 1.26 or later is needed, this is $version: https://go.dev/dl/")
}

check_command() {
	command -v "$1" >/dev/null || complaints+=("$1 is missing: install the package $1")
}

# install installs Debian packages, and fails where it cannot: without root, or on another system.
install() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
	echo "setup: installing $*"
	apt-get update -q && apt-get install -qy --no-install-recommends "$@"
}

# check_c looks for what -race links against.
check_c() {
	command -v go >/dev/null || return 0
	if [ "$(CGO_ENABLED='' go env CGO_ENABLED)" = 1 ] && [ -e /usr/include/stdlib.h ]; then
		return 0
	fi
	install gcc libc6-dev ||
		complaints+=("go test -race needs a C compiler: apt-get install gcc libc6-dev (as root), or your system's equivalent")
}

# check_network looks for what the tests of the node agent run: both variants of iptables, sets, connection tracking, namespaces.
check_network() {
	local programs=(iptables-nft iptables-legacy ipset ip conntrack nft pgrep sysctl) packages=(iptables ipset iproute2 conntrack nftables procps)
	have "${programs[@]}" && return 0
	install "${packages[@]}" && have "${programs[@]}" && return 0
	complaints+=("the packet tests need ${programs[*]}: apt-get install ${packages[*]} (as root), or your system's equivalent")
}

# check_browser looks for what opens the console in tests.
check_browser() {
	have chromium && return 0
	install chromium fonts-dejavu-core && have chromium && return 0
	complaints+=("the tests of \`kubectl clusterip console\` need chromium: apt-get install chromium (as root), or your system's equivalent")
}

# check_minisign looks for what users verify a release with.
check_minisign() {
	have minisign && return 0
	install minisign && have minisign && return 0
	complaints+=("the test of a release needs minisign: apt-get install minisign (as root), or your system's equivalent")
}

# have reports whether all programs are there. Those of an administrator may not be in the PATH of others.
have() {
	local program
	for program in "$@"; do
		PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || return 1
	done
}

check_go
check_command make
check_command git
check_network
if [ "${1:-}" = all ]; then
	check_c
	check_browser
	check_minisign
fi

if [ ${#complaints[@]} -gt 0 ]; then
	printf 'setup: %s\n' "${complaints[@]}" >&2
	exit 1
fi
echo "setup: all that is needed is here ($(go env GOVERSION))"
