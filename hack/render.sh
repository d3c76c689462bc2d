#!/usr/bin/env bash
# Renders every kustomization under config/, and every Component on top of config/default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kubectl=$(hack/tools/build.sh kubernetes-1.37:kubectl)/kubectl
overlay=$(mktemp -d)
trap 'rm -rf "$overlay"' EXIT

# render fails when kustomize does, and when it leaves a namespace that no transformer reached.
render() {
	local rendered
	rendered=$("$kubectl" kustomize "$1") || { echo "$2 does not render" >&2; return 1; }
	! grep -nE '^ *namespace: system$' <<<"$rendered" || { echo "$2: the namespace was not set" >&2; return 1; }
	echo "$2: $(grep -c '^kind:' <<<"$rendered") objects"
}

# component renders config/default with one Component switched on.
component() {
	local here
	here=$(realpath --relative-to="$overlay" config)
	cat >"$overlay/kustomization.yaml" <<-EOF
		resources: [$here/default]
		components: [$here/components/$1]
	EOF
	render "$overlay" "config/default + $1"
}

for dir in default crd webhook prometheus grafana samples components/uninstall components/migration/{check,run,verify,rollback,finalize} \
	proxyagent components/proxyagent-{beside-kube-proxy,replace-kube-proxy,uninstall}; do
	render "config/$dir" "config/$dir"
done
for file in config/components/*/kustomization.yaml; do
	grep -q '^kind: Component' "$file" || continue
	component "$(basename "$(dirname "$file")")"
done
