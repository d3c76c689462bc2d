#!/usr/bin/env bash
# Applies config/default with image IMG to the cluster of the current kubeconfig.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=hack/lib.sh
. hack/lib.sh

manifests config/default | "$KUBECTL" apply --server-side -f -
echo "Deployed $IMG. Watch it with:"
echo "  kubectl -n $NAMESPACE rollout status deployment/$DEPLOYMENT"
