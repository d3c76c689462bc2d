#!/usr/bin/env bash
# Runs the pinned golangci-lint: hack/lint.sh [run|fmt] [arguments]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

linter=$(hack/tools/build.sh golangci-lint)/golangci-lint
[ $# -gt 0 ] || set -- run
exec "$linter" "$@"
