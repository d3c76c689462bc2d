#!/usr/bin/env bash
# Leaves the cluster as one that never had the operator: takes the webhooks away, stops the managers, lets the uninstall Job take away
# what they wrote, and only then deletes the manifests. When the Job fails everything else is left in place,
# so that it can be run again. ServiceCIDRPolicies are deleted with their kind; to keep them: kubectl get scp -o yaml >policies.yaml. TIMEOUT bounds each of the two waits, in seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
. hack/lib.sh

timeout=${TIMEOUT:-300}
job=clusterip-operator-uninstall
k() { "$KUBECTL" -n "$NAMESPACE" "$@"; }

# With nobody behind them the webhooks would only make the API server wait; they fail open, so nothing would break.
unhook() {
	echo "== removing the webhooks"
	"$KUBECTL" delete mutatingwebhookconfiguration,validatingwebhookconfiguration clusterip-operator --ignore-not-found
}

stop() {
	echo "== stopping the managers"
	if k get deployment "$DEPLOYMENT" >/dev/null 2>&1; then
		k scale deployment "$DEPLOYMENT" --replicas=0
		k wait pod -l app.kubernetes.io/component=manager --for=delete --timeout="${timeout}s"
	fi
	k delete deployment "$DEPLOYMENT" --ignore-not-found
}

# ended waits until the Job is complete (0) or has failed (1), and gives up after the timeout.
ended() {
	local deadline=$((SECONDS + timeout)) types
	while [ $SECONDS -lt $deadline ]; do
		types=$(k get job "$job" -o jsonpath='{.status.conditions[?(@.status=="True")].type}')
		[[ $types != *Complete* ]] || return 0
		[[ $types != *Failed* ]] || return 1
		sleep 1
	done
	return 1
}

cleanup() {
	echo "== taking away what the operator wrote"
	# The manifests may have been deleted without cleaning up first; the Job still needs its namespace.
	"$KUBECTL" get namespace "$NAMESPACE" >/dev/null 2>&1 || "$KUBECTL" create namespace "$NAMESPACE"
	k delete job "$job" --ignore-not-found
	manifests config/components/uninstall | "$KUBECTL" apply --server-side -f -
	if ! ended; then
		echo "undeploy: the Job $job did not complete; the rest of the operator stays until it does." >&2
		k describe job "$job" >&2 || true
		k logs "job/$job" --all-containers --tail=50 >&2 || true
		exit 1
	fi
	k logs "job/$job" --tail=50 || true
}

remove() {
	echo "== removing the manifests"
	manifests config/components/uninstall | "$KUBECTL" delete --ignore-not-found -f -
	manifests config/default | "$KUBECTL" delete --ignore-not-found -f -
}

unhook
stop
cleanup
remove
cat <<'EOF'
The operator is gone, and the ServiceCIDRPolicies with their kind. What stays, because it is yours or passes by itself:
  - Services with their ClusterIPs, ServiceCIDRs and IPAddresses that the API server or you created
  - Events, until they expire
  - Prometheus objects and samples, if you applied them:
      kubectl delete -k config/prometheus
      kubectl delete -k config/samples
EOF
