#!/usr/bin/env bash
# Builds the images IMG (manager) and PROXYAGENT_IMG (node agent) with docker buildx, for PLATFORM when set, and loads them into the engine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing() {
	echo "images: $1" >&2
	echo "Without an engine use 'make build': bin/manager and bin/kubectl-clusterip are the whole content of the one image, and bin/proxyagent" >&2
	echo "with iptables (both variants) and ipset of Debian that of the other." >&2
	exit 1
}
command -v docker >/dev/null || missing "no docker command on this machine; install Docker Engine with the buildx plugin"
docker buildx version >/dev/null 2>&1 || missing "docker has no buildx plugin; install docker-buildx-plugin (or docker-buildx)"
docker info >/dev/null 2>&1 || missing "the docker command cannot reach an engine; start it, or set DOCKER_HOST to one"

# build IMAGE [ARGUMENT...] builds one image.
build() {
	local image=$1
	shift
	docker buildx build ${PLATFORM:+--platform "$PLATFORM"} --build-arg "VERSION=${VERSION:-dev}" --tag "$image" --load "$@" .
	echo "built $image"
}

build "${IMG:?}"
build "${PROXYAGENT_IMG:-clusterip-operator/proxyagent:dev}" --target proxyagent
