#!/usr/bin/env bash
# Builds the programs of tool modules once into the cache and prints the folder of each.
#
#   hack/tools/build.sh MODULE[:PROGRAM,PROGRAM...]...
#
# A tool module is a folder beside this file with a go.mod of its own; its `tool` lines say what is built: all of
# it, or the programs that are named after the colon.
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

# sources prints each main package of the module in the working directory, after the name of its program.
sources() {
	local package
	{ ! grep -q '^tool' go.mod || go list tool; } | while read -r package; do
		case $package in
		go.etcd.io/etcd/server/v3) echo "etcd $package" ;;
		*) echo "${package##*/} $package" ;;
		esac
	done || return 1 # in a substitution, bash goes on otherwise
	[ "$(find . -maxdepth 1 -name '*.go' ! -name '*_test.go' | wc -l)" = 0 ] || echo "$(basename "$PWD") ."
}

# built reports whether the folder $1 has the programs $2, a comma between each; without $2, all of its module.
# A program's mark is written when it is complete, .done when all of them are.
built() {
	[ ! -e "$1/.done" ] || return 0
	[ -n "$2" ] || return 1
	local program
	for program in ${2//,/ }; do
		[ -e "$1/$program.done" ] || return 1
	done
}

# progress reads what go says while it downloads and compiles, and tells how far the build of $1 is: on a terminal in one
# line that changes, otherwise every 20 seconds. Lines that begin with + are packages to compile; what it does not know it repeats.
progress() {
	local line todo=0 begun=0 modules=0 told=$SECONDS now
	while :; do
		if IFS= read -r -t 5 line; then
			case $line in
			+) todo=$((todo + 1)) ;;
			"go: downloading "*) modules=$((modules + 1)) ;;
			*[[:space:]]*) echo "$line" >&2 ;;
			*) begun=$((begun + 1)) ;;
			esac
		elif [ $? -lt 128 ]; then
			break
		fi
		now="$1: $begun of $todo packages compiled, $SECONDS s"
		[ "$todo" -gt 0 ] || now="$1: $modules modules downloaded, $SECONDS s"
		if [ -t 2 ]; then
			printf '\r%s\e[K' "$now" >&2
		elif [ $((SECONDS - told)) -ge 20 ]; then
			told=$SECONDS
			echo "$now" >&2
		fi
	done
	[ ! -t 2 ] || echo >&2
}

# compile builds those of the programs $2 (all of the module, if it is empty) that the folder $1 does not have.
compile() {
	local out=$1 wanted=$2 list known=, program package programs=() packages=()
	list=$(sources)
	while read -r program package; do
		known+=$program,
		[[ -z $wanted || ,$wanted, = *,$program,* ]] || continue
		[ ! -e "$out/$program.done" ] || continue
		programs+=("$program")
		packages+=("$package")
	done <<<"$list"
	for program in ${wanted//,/ }; do
		[[ $known = *,$program,* ]] || { echo "build.sh: no program $program in $(basename "$PWD")" >&2; exit 2; }
	done
	[ ${#programs[@]} = 0 ] || link "$out"
	for program in "${programs[@]}"; do touch "$out/$program.done"; done
	[ -n "$wanted" ] || touch "$out/.done"
}

# link compiles and links the packages of compile. Debugging information costs time, and would not be linked anyway.
link() {
	local flags=(-trimpath -gcflags=all=-dwarf=false -ldflags "-s -w $(stamps)")
	echo "building ${programs[*]} into the cache (once; a control plane takes minutes)" >&2
	{
		CGO_ENABLED=0 go list "${flags[@]}" -deps -f '{{if .Stale}}+{{end}}' "${packages[@]}" &&
			CGO_ENABLED=0 go build -v "${flags[@]}" -o "$1/" "${packages[@]}"
	} 2>&1 | progress "${programs[*]}"
	# The main package of etcd is called after its module path; everyone else calls it etcd.
	[ ! -e "$1/server" ] || mv "$1/server" "$1/etcd"
	echo "built ${programs[*]} in $SECONDS s" >&2
}

build() {
	local module=${1%%:*} programs="" digest out
	[[ $1 != *:* ]] || programs=${1#*:}
	[ -f "$here/$module/go.mod" ] || { echo "build.sh: no module $module under hack/tools" >&2; exit 2; }
	cd "$here/$module"
	digest=$( (cat go.mod go.sum; find . -name '*.go' -exec cat {} +; go env GOVERSION GOARCH; stamps) | sha256sum | cut -c1-12)
	out=$cache/$module-$digest
	if ! built "$out" "$programs"; then
		mkdir -p "$out"
		# One builder at a time: two cores build one control plane, not two.
		exec 9>"$cache/.lock"
		flock 9
		built "$out" "$programs" || compile "$out" "$programs"
		exec 9>&-
	fi
	echo "$out"
}

mkdir -p "$cache"
for module in "$@"; do
	(build "$module")
done
