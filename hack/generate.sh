#!/usr/bin/env bash
# Writes generated files anew: from the types in api/ deep copies, the CustomResourceDefinitions and docs/reference/api.md,
# from the programs docs/reference/flags.md, from config/ docs/reference/values.md, and from their metrics the tables of docs/reference/metrics.md.
# The other manifests under config/ are written by hand, each rule with its reason; tests hold them against the code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

generator=$(hack/tools/build.sh controller-gen)/controller-gen
"$generator" object crd paths=./api/... output:crd:dir=config/crd

module=hack/tools/crd-ref-docs
"$(hack/tools/build.sh crd-ref-docs)/crd-ref-docs" --source-path=api --config=$module/config.yaml --templates-dir=$module/templates \
	--renderer=markdown --output-path=docs/reference/api.md --log-level=WARN

# describe TITLE COMMAND... prints what a command says of itself, without the flags that its parents have described, and then its subcommands.
describe() {
	local title=$1 text sub
	shift
	text=$("$@" --help 2>&1 | sed '/^Global Flags:/,$d')
	printf '\n## %s\n\n```text\n%s\n```\n' "$title" "$(sed -E '/^(Use ".* --help" for more|  help  +Help about)/d' <<<"$text")"
	for sub in $(awk '/^Available Commands:/ { on = 1; next } !NF { on = 0 } on { print $1 }' <<<"$text"); do
		[ "$sub" = help ] || describe "$title $sub" "$@" "$sub"
	done
}

programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
GOOS=linux go build -o "$programs/" ./cmd/...
{
	printf '# Commands and flags\n\nWritten by `hack/generate.sh` from what the programs say of themselves. The fields of configuration files are in [api.md](api.md).\n'
	describe "kubectl clusterip" "$programs/kubectl-clusterip"
	describe manager "$programs/manager"
	describe "manager cleanup" "$programs/manager" cleanup
	describe proxyagent "$programs/proxyagent"
	describe proxyagent-trace "$programs/proxyagent-trace"
} >docs/reference/flags.md

"$(hack/tools/build.sh chart)/chart" values config >docs/reference/values.md

# Tests, for they see what a package keeps to itself. One after the other: both write into docs/reference/metrics.md.
go test -p 1 -run '^TestDocumentation$' ./internal/metrics ./proxyagent/metrics -update >&2
