#!/usr/bin/env bash
# What hack/test.sh gives to `go test -exec`: starts one test program, in the folder of its package, with the flags of Ginkgo if that is what it tests with.
set -euo pipefail

if grep -qs 'RunSpecs(' ./*_test.go; then
	set -- "$@" -ginkgo.no-color -ginkgo.randomize-all "-ginkgo.timeout=$LIMIT" "-ginkgo.seed=$SEED" "-ginkgo.label-filter=$FILTER" \
		"-ginkgo.json-report=$REPORTS/${CLUSTERIP_SOCKETLB:+socketlb-}$(tr / - <<<"${PWD#/}").json"
	[ -z "${FOCUS:-}" ] || set -- "$@" "-ginkgo.focus=$FOCUS"
	[ -z "${SKIP:-}" ] || set -- "$@" "-ginkgo.skip=$SKIP"
	read -ra flags <<<"${FLAGS:-}"
	set -- "$@" "${flags[@]}"
fi
exec "$@"
