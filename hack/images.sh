#!/usr/bin/env bash
# Makes the images IMG (manager, with the kubectl plugin) and PROXYAGENT_IMG (node agent) as OCI archives in OUT (bin/images), for the architectures ARCHS (amd64 and arm64). No container engine is needed; with
# LOAD=yes they are loaded into docker or containerd where one of them runs. The programs are those of the tree SOURCE (this one).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

read -ra archs <<<"${ARCHS:-amd64 arm64}"
version=${VERSION:-dev} out=$(realpath -m "${OUT:-bin/images}") source=${SOURCE:-.}
images=$(hack/tools/build.sh images)/images
umask 022 # the modes of files are part of an image, and of its digest

# compile FOLDER PACKAGE... builds programs for all architectures, as the Dockerfile does, into a folder that holds nothing else.
compile() {
	local folder=$1 arch
	shift
	for arch in "${archs[@]}"; do
		rm -rf "${out:?}/$arch/$folder"
		CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -C "$source" -buildvcs=false -trimpath -ldflags "-s -w -X github.com/clusterip-operator/clusterip-operator/internal/version.stamped=$version" -o "$out/$arch/$folder/" "$@"
	done
}

# tool FOLDER MODULE PROGRAM does the same with a program of hack/tools, which is built for this machine alone.
tool() {
	local folder=$1 module=$2 program=$3 arch
	arch=$(go env GOARCH)
	[ "${archs[*]}" = "$arch" ] || { echo "images.sh: $program is built for this machine alone: set ARCHS=$arch" >&2; exit 2; }
	rm -rf "${out:?}/$arch/$folder"
	install -D -t "$out/$arch/$folder" "$(hack/tools/build.sh "$module:$program")/$program"
}

# iptables unpacks the programs that Service proxies run, once.
iptables() {
	local arch
	[ -z "${unpacked:-}" ] || return 0
	for arch in "${archs[@]}"; do
		rm -rf "${out:?}/$arch/packages"
		hack/rootfs.sh "$arch" "$out/$arch/packages"
	done
	unpacked=yes
}

# write IMAGE PROGRAM TITLE USER FOLDER... makes the archive of an image, a layer for each folder, and loads it.
write() {
	local image=$1 program=$2 title=$3 user=$4 arch roots=()
	shift 4
	local file=${program%% *}
	file=$out/${file#/}.tar
	for arch in "${archs[@]}"; do
		roots+=("$arch=$(printf ",$out/$arch/%s" "$@" | cut -c2-)")
	done
	"$images" -user "$user" -label "org.opencontainers.image.title=$title" -label org.opencontainers.image.licenses=Apache-2.0 \
		"$image" "$program" "$file" "${roots[@]}"
	echo "$image is in $file"
	if [ "${LOAD:-}" = yes ]; then
		load "$file"
	fi
}

# load FILE offers an archive to the engines that run here. One that refuses it, as docker without the containerd image store does, is no failure: the archive is there.
load() {
	if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
		docker load --input "$1" || echo "docker did not load $1" >&2
	fi
	if command -v ctr >/dev/null && ctr version >/dev/null 2>&1; then
		ctr --namespace k8s.io images import "$1" || echo "containerd did not load $1" >&2
	fi
}

manager() {
	compile manager ./cmd/manager ./cmd/kubectl-clusterip
	write "${IMG:-clusterip-operator/manager:dev}" /manager clusterip-operator 65532:65532 manager
}

# Root, for the capabilities that config/proxyagent gives it.
proxyagent() {
	compile proxyagent ./cmd/proxyagent ./cmd/proxyagent-trace
	iptables
	write "${PROXYAGENT_IMG:-clusterip-operator/proxyagent:dev}" /proxyagent "clusterip-operator proxyagent" "" packages proxyagent
}

# What holds pods on the nodes of test/cluster.
pause() {
	compile pause ./test/cluster/pause
	write clusterip-operator/pause:dev /pause pause 65535:65535 pause
}

# The application of the tour on nodes.
demo() {
	compile demo ./test/cluster/demo
	write clusterip-operator/demo:dev /demo demo 65532:65532 demo
}

# The DNS server of test/cluster. It listens on port 53.
coredns() {
	tool coredns coredns coredns
	write clusterip-operator/coredns:dev /coredns coredns "" coredns
}

# What is in the place of the node agent elsewhere.
kube-proxy() {
	tool kube-proxy kubernetes-1.37 kube-proxy
	iptables
	write clusterip-operator/kube-proxy:dev /kube-proxy kube-proxy "" packages kube-proxy
}

# What the specs of sig-network run in their pods, with the programs of Debian that they call.
agnhost() {
	local folder
	tool agnhost sig-network agnhost
	folder=$out/${archs[0]}/agnhost
	hack/packages.sh "${archs[0]}" "$folder" bash bind9-dnsutils conntrack coreutils curl dash grep hostname iproute2 iptables libc-bin mawk netcat-openbsd procps sed wget
	ln -sf dash "$folder/bin/sh"
	ln -sf nc.openbsd "$folder/bin/nc"
	ln -sf mawk "$folder/usr/bin/awk"
	ln -sf xtables-nft-multi "$folder/usr/sbin/iptables"
	install -t "$folder" "$(hack/tools/build.sh coredns)/coredns"
	# The certificate of one of its servers lies beside its source.
	(cd hack/tools/sig-network && go list -m -f '{{.Dir}}' k8s.io/kubernetes) | while read -r kubernetes; do
		install -m 0644 -t "$folder" "$kubernetes"/test/images/agnhost/porter/localhost.{crt,key}
	done
	write clusterip-operator/agnhost:dev "/agnhost pause" agnhost "" agnhost
}

# Their server that answers with packets out of order.
regression-issue-74839() {
	tool regression-issue-74839 sig-network regression-issue-74839
	write clusterip-operator/regression-issue-74839:dev /regression-issue-74839 regression-issue-74839 "" regression-issue-74839
}

for image in ${IMAGES:-manager proxyagent}; do
	"$image"
done
