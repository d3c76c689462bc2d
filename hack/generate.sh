#!/usr/bin/env bash
# Writes generated files anew: deep copies of the API types.
# The manifests under config/ are written by hand, each rule with its reason; tests hold them against the code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

generator=$(hack/tools/build.sh controller-gen)/controller-gen
"$generator" object paths=./api/...
