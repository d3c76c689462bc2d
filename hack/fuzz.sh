#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME each, or those alone that are named: hack/fuzz.sh [TARGET...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
while IFS=: read -r file line; do
	target=$(sed -E 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/' <<<"$line")
	[[ $# = 0 || " $* " = *" $target "* ]] || continue
	echo "== $target in $(dirname "$file")"
	go test -run '^$' -fuzz "^$target\$" -fuzzminimizetime 1x -fuzztime "${FUZZTIME:-20s}" "./$(dirname "$file")" || status=1
done < <(git ls-files --cached --others --exclude-standard '*_test.go' ':!hack/tools' | xargs -r grep -HE '^func Fuzz')
exit $status
