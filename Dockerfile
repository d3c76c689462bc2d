# Two images, for those who prefer this to `make images`, which makes the same of the same files without an engine. The last one, which is built without --target, is the manager with the kubectl
# plugin: static binaries on an empty image, under a user that is not root. The certificates it needs, those of the API server, are mounted into every pod.
# --target proxyagent is the node agent, with the programs that it runs.
# Images of others are named by digest: what a tag leads to may change. The digests are those of all architectures.
ARG GO=golang:1.26.8@sha256:3c3e25a4da13fd0478eed2df1eb35a0e667094a7124d3993a6a1d30f71c17e79
ARG BASE=scratch
# What hack/packages.sh unpacks packages on.
ARG DEBIAN=debian:12-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587

FROM --platform=$BUILDPLATFORM ${GO} AS source
WORKDIR /src
# Modules first: they change less often than the code and stay in their own layer.
COPY go.mod go.sum ./
RUN go mod download
COPY api/ api/
COPY cmd/ cmd/
COPY internal/ internal/

FROM source AS build-proxyagent
COPY proxyagent/ proxyagent/
ARG TARGETOS TARGETARCH
ARG VERSION=dev
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w -X github.com/clusterip-operator/clusterip-operator/internal/version.stamped=${VERSION}" -o /out/ ./cmd/proxyagent ./cmd/proxyagent-trace

FROM --platform=$BUILDPLATFORM ${DEBIAN} AS rootfs
COPY hack/packages.sh hack/rootfs.sh /hack/
ARG TARGETARCH
RUN /hack/rootfs.sh ${TARGETARCH} /rootfs

FROM ${BASE} AS proxyagent
LABEL org.opencontainers.image.title="clusterip-operator proxyagent" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=rootfs /rootfs/ /
COPY --from=build-proxyagent /out/ /
# Root, for the capabilities that config/proxyagent gives it.
ENTRYPOINT ["/proxyagent"]

FROM source AS build
COPY allocator/ allocator/
COPY config/enforcement/ config/enforcement/
COPY config/webhook/ config/webhook/
COPY controllers/ controllers/
COPY plugin/ plugin/
ARG TARGETOS TARGETARCH
ARG VERSION=dev
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w -X github.com/clusterip-operator/clusterip-operator/internal/version.stamped=${VERSION}" -o /out/ ./cmd/manager ./cmd/kubectl-clusterip

FROM ${BASE}
LABEL org.opencontainers.image.title="clusterip-operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/ /
USER 65532:65532
ENTRYPOINT ["/manager"]
