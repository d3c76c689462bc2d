module github.com/clusterip-operator/clusterip-operator/hack/tools/sign

go 1.26.0

require aead.dev/minisign v0.3.0

require (
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
