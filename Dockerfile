# The manager and the kubectl plugin as static binaries on an empty image, under a user that is not root. The certificates it needs, those
# of the API server, are mounted into every pod.
ARG GO=golang:1.26
ARG BASE=scratch

FROM --platform=$BUILDPLATFORM ${GO} AS build
WORKDIR /src
# Modules first: they change less often than the code and stay in their own layer.
COPY go.mod go.sum ./
RUN go mod download
COPY allocator/ allocator/
COPY api/ api/
COPY cmd/ cmd/
COPY controllers/ controllers/
ARG TARGETOS TARGETARCH
ARG VERSION=dev
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w -X main.stamped=${VERSION}" -o /out/ ./cmd/manager ./cmd/kubectl-clusterip

FROM ${BASE}
LABEL org.opencontainers.image.title="clusterip-operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/ /
USER 65532:65532
ENTRYPOINT ["/manager"]
