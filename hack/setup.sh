#!/usr/bin/env bash
# Checks what building and testing needs: Go 1.26, make, git and, for the race detector, a C compiler.
# Installs only the C compiler, only when it is missing, and only as root on a Debian system.
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

# check_c looks for what -race links against.
check_c() {
	command -v go >/dev/null || return 0
	if [ "$(CGO_ENABLED='' go env CGO_ENABLED)" = 1 ] && [ -e /usr/include/stdlib.h ]; then
		return 0
	fi
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "setup: installing gcc and libc6-dev for go test -race"
		apt-get update -q && apt-get install -qy --no-install-recommends gcc libc6-dev && return 0
	fi
	complaints+=("go test -race needs a C compiler: apt-get install gcc libc6-dev (as root), or your system's equivalent")
}

check_go
check_command make
check_command git
check_c

if [ ${#complaints[@]} -gt 0 ]; then
	printf 'setup: %s\n' "${complaints[@]}" >&2
	exit 1
fi
echo "setup: all that is needed is here ($(go env GOVERSION))"
