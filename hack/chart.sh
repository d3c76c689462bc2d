#!/usr/bin/env bash
# Makes the Helm chart of config/ in OUT (bin/chart), with image IMG: a folder, the same as .tgz, and as an OCI layout. VERSION is used if it is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${VERSION:-}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]] || version=v0.0.0-dev
out=${OUT:-bin/chart}
mkdir -p "$out"
"$(hack/tools/build.sh chart)/chart" -version "$version" -image "${IMG:-}" config LICENSE "$out"
echo "chart $version is in $out"
