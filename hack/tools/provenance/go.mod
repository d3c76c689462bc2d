module github.com/clusterip-operator/clusterip-operator/hack/tools/provenance

go 1.26.0

require (
	github.com/in-toto/attestation v1.2.0
	google.golang.org/protobuf v1.36.11
)
