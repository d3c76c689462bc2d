module github.com/clusterip-operator/clusterip-operator/hack/tools/sbom

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/package-url/packageurl-go v0.1.7
)
