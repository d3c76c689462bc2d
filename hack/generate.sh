#!/usr/bin/env bash
# Writes generated files anew from the types in api/v1alpha1: deep copies, the CustomResourceDefinition and its reference.
# The other manifests under config/ are written by hand, each rule with its reason; tests hold them against the code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

generator=$(hack/tools/build.sh controller-gen)/controller-gen
"$generator" object crd paths=./api/... output:crd:dir=config/crd

island=hack/tools/crd-ref-docs
"$(hack/tools/build.sh crd-ref-docs)/crd-ref-docs" --source-path=api/v1alpha1 --config=$island/config.yaml --templates-dir=$island/templates \
	--renderer=markdown --output-path=docs/api.md --log-level=WARN
