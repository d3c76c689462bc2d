# What deploy.sh and undeploy.sh share. Sourced from the root of the repository.
# shellcheck shell=bash disable=SC2034 # used by those who source this
NAMESPACE=clusterip-operator-system
DEPLOYMENT=clusterip-operator-manager
IMG=${IMG:-clusterip-operator/manager:dev}

# Your own kubectl if there is one, otherwise the one of the test control plane.
KUBECTL=${KUBECTL:-$(command -v kubectl || echo "$(hack/tools/build.sh kubernetes-1.37:kubectl)/kubectl")}

# manifests prints a kustomization with the image replaced by IMG.
manifests() {
	"$KUBECTL" kustomize "$1" | sed "s|image: clusterip-operator/manager:dev\$|image: $IMG|"
}
