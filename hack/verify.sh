#!/usr/bin/env bash
# Checks what a reviewer should not have to: runs every step, reports all that failed, exits 1 if any did.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The flags of hack/test.sh, so that what is compiled for the tests serves vet and the linter too.
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -gcflags=all=-dwarf=false"

failed=()
step() {
	local name=$1
	shift
	echo "== $name"
	"$@" || failed+=("$name")
}

# sources prints the files of the tree that match a pattern, committed or not, without ignored ones.
sources() { git ls-files --cached --others --exclude-standard "$@"; }

formatted() {
	local files
	files=$(sources '*.go' | xargs -r gofmt -l)
	[ -z "$files" ] || { printf 'not gofmt-ed:\n%s\n' "$files" >&2; return 1; }
}

# comments of Go are read in two windows side by side: 100 columns at most, but directives.
comments() {
	local long
	long=$(sources '*.go' | grep -v /zz_generated | xargs -r awk -F'`' 'FNR == 1 { raw = 0 }
		{ line = $0; gsub(/[\200-\277]/, "", line) } # a character once, whatever its bytes
		!raw && length(line) > 100 && /^\t*\/\// && !/^\t*\/\/( \+|go:|nolint)/ { print FILENAME ":" FNR ": " length(line) " columns" }
		NF && NF % 2 == 0 { raw = !raw }')
	[ -z "$long" ] || { printf 'comments of more than 100 columns:\n%s\n' "$long" >&2; return 1; }
}

# names: whose an IPAddress is decides what is deleted, and "ours" was said of the API server's here and of the operator's there (internal/upstream/whose.go).
names() {
	local ambiguous
	ambiguous=$(sources 'api/*.go' 'cmd/*.go' 'controllers/*.go' 'internal/*.go' 'plugin/*.go' | grep -v _test.go | xargs -r grep -nE '^[^/]*\bours\b' | grep -vE '"[^"]*\bours\b[^"]*"' || true)
	[ -z "$ambiguous" ] || { printf 'say whose, not "ours":\n%s\n' "$ambiguous" >&2; return 1; }
}

# tool_modules checks that the go.sum of each tool module knows the go.mod of all that it needs. Tidying kubernetes would load its whole world.
tool_modules() {
	local module status=0
	for module in hack/tools/*/go.mod; do
		(cd "$(dirname "$module")" && go list -mod=readonly -m all >/dev/null) || { echo "$module does not agree with its go.sum" >&2; status=1; }
	done
	return $status
}

scripts() {
	local file status=0
	while read -r file; do
		bash -n "$file" || status=1
	done < <(sources 'hack/*.sh' .ci/run)
	return $status
}

clean() {
	git diff --exit-code --stat || return 1
	local untracked
	untracked=$(git ls-files --others --exclude-standard)
	[ -z "$untracked" ] || { printf 'untracked:\n%s\n' "$untracked" >&2; return 1; }
}

step "generated files" hack/generate.sh
step "gofmt" formatted
step "comments" comments
step "names" names
step "lint" hack/lint.sh
step "go.mod is tidy" go mod tidy -diff
step "tool modules" tool_modules
step "import map" go test ./internal/arrows
step "manifests render" hack/render.sh
step "shell scripts parse" scripts
step "clean tree" clean

if [ ${#failed[@]} -gt 0 ]; then
	printf '\nverify FAILED:\n' >&2
	printf '  %s\n' "${failed[@]}" >&2
	exit 1
fi
echo "verify ok"
