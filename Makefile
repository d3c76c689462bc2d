# Thin targets; the work is in short scripts under hack/. `make help` lists them.

# IMG is the image that images makes and that deploy puts into the cluster.
IMG ?= clusterip-operator/manager:dev
# VERSION is stamped into the binary.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# VERSIONS are the minor releases of Kubernetes that test-versions runs on.
ALL_VERSIONS := 1.32 1.33 1.34 1.35 1.36 1.37
VERSIONS ?= $(ALL_VERSIONS)
# ONCE=1 lets `make run` end after the tour; CLUSTER=1 gives it nodes, and runs everything in pods.
ONCE ?=
CLUSTER ?=

comma := ,

export IMG VERSION
SHELL := bash
.DEFAULT_GOAL := help

##@ Try it
.PHONY: help run
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The flags are those of hack/tools/build.sh and hack/test.sh, so that all compile a package once, and without debugging information.
run: export CGO_ENABLED := 0
run: export GOFLAGS := $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false
run: ## A real control plane on loopback, the operator, and a live tour (ONCE=1: exit after the tour; CLUSTER=1: with two nodes and pods, as root).
	$(if $(KUBEBUILDER_ASSETS),,hack/tools/build.sh etcd kubernetes-1.37:kube-apiserver,kubectl$(if $(filter-out 0 false no,$(ONCE)),,$(comma)kube-controller-manager) >/dev/null)
	go run ./test/tour $(if $(filter-out 0 false no,$(ONCE)),--once) $(if $(filter-out 0 false no,$(CLUSTER)),--nodes)

##@ Check it
.PHONY: test test-unit test-all test-versions test-cluster test-ipvs soak bench bench-upgrade bench-proxy bench-steering deflake fuzz lint verify
test: ## Unit tests, the core stories on Kubernetes 1.37, and real packets: 8 to 11 minutes on two cores after `make run`. Packets need root.
	hack/test.sh core

test-unit: ## Only what needs no control plane: seconds.
	hack/test.sh unit

test-all: ## What CI runs, `make test` and `make verify` included: 20 to 28 minutes on two cores, the longest with an empty build cache. Commit first.
	@status=0; hack/test.sh all || status=1; hack/verify.sh || status=1; exit $$status

test-versions: ## Of soak, the core stories on each minor release of Kubernetes, and the tables of docs/versions.md (VERSIONS=1.34: on that one alone, and no tables).
	@status=0; for minor in $(VERSIONS); do CLUSTERIP_KUBERNETES=$$minor hack/test.sh version || status=1; done; exit $$status
	$(if $(filter-out $(VERSIONS),$(ALL_VERSIONS)),,go run ./test/versions table bin/versions docs/versions.md)

test-cluster: ## Of soak, the slices that run on nodes with containerd and kubelet: the operator and the agent in pods, the specs of sig-network. Needs root and Debian 12.
	go run ./test/soak run 'nodes*' 'sig-network-*'

test-ipvs: ## Of soak, the node agent's mode ipvs, in an emulated machine with Debian's kernel (SHORT=1: what needs no API server, minutes). Debian 12.
	hack/ipvs.sh $(if $(filter-out 0 false no,$(SHORT)),short)

soak: ## What takes longer: crowds, churn, kill points, chaos, each minor release of Kubernetes. Hours, in slices of less than 80 minutes (SLICE='hostile-*': some; SEED=n repeats), with docs/reference/soak.md.
	@status=0; go run ./test/soak run $(SLICE) || status=1; $(if $(SLICE),,go run ./test/versions table bin/versions docs/versions.md || status=1;) exit $$status

bench: ## Ours and upstream's allocator in one run, then the same through an API server.
	hack/bench.sh

bench-upgrade: ## The way off the bitmap, migrated and not, up to 65,000 Services (QUICK=1: small clusters, to see that it works).
	go run ./test/bench --only upgrade,minors $(if $(filter-out 0 false no,$(QUICK)),--quick)

bench-proxy: ## The node agent and the real kube-proxy in the same namespaces, up to 100,000 Services (QUICK=1: 1,000). Needs root.
	go run ./test/bench --only proxy,proxy-sizes,proxy-affinity,proxy-endpoints,proxy-clients,proxy-scaling,proxy-socketlb $(if $(filter-out 0 false no,$(QUICK)),--quick)

bench-steering: ## What the admission webhooks cost, with and without them in turn, written into docs/reference/benchmarks.md (QUICK=1: small, written nowhere).
	go run ./test/bench --only steering $(if $(filter-out 0 false no,$(QUICK)),--quick,--write)

deflake: ## Repeat SUITE=test/integration/leaving beside busy processes until it fails (FOCUS='part of a spec', TIMES=50, SEED=n, RACE=yes).
	hack/deflake.sh "$(SUITE)" "$(FOCUS)"

fuzz: ## Every fuzz target for FUZZTIME (default 20s) each.
	hack/fuzz.sh

lint: ## golangci-lint, pinned in hack/tools/golangci-lint.
	hack/lint.sh

verify: ## Generated files, format, lint, modules, import map, manifests, scripts, clean tree.
	hack/verify.sh

##@ Build it
.PHONY: build generate fmt images chart release tools clean
build: ## bin/manager, bin/proxyagent and bin/kubectl-clusterip for this machine. Never rewrites the tree.
	CGO_ENABLED=0 go build -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w -X github.com/clusterip-operator/clusterip-operator/internal/version.stamped=$(VERSION)" -o bin/ ./cmd/...

generate: ## Write generated files anew.
	hack/generate.sh

fmt: ## Format Go code and sort imports.
	hack/lint.sh fmt

images: ## OCI archives of both images in bin/images, for amd64 and arm64, without a container engine; loaded into docker or containerd where there is one.
	LOAD=yes hack/images.sh

chart: ## The Helm chart of config/ in bin/chart, with image IMG.
	hack/chart.sh

release: ## The plugin for six platforms, krew's manifest, images, manifests and a Helm chart that pin them, SBOMs, provenance and signature, in bin/release: make release VERSION=v1.2.3
	hack/release.sh "$(VERSION)"

tools: ## Build control planes, linter and generators into the cache (minutes, once).
	hack/tools/build.sh etcd kubernetes-1.37:kube-apiserver,kubectl,kube-controller-manager,kube-proxy kubernetes-1.32 golangci-lint controller-gen crd-ref-docs benchstat promtool chart helm

clean: ## Remove bin/. The cache of built tools stays.
	rm -rf bin

##@ Install it
.PHONY: deploy undeploy
deploy: ## Apply config/default with image IMG to the cluster of your kubeconfig.
	hack/deploy.sh

undeploy: ## Stop the operator, take away what it wrote, then remove its manifests.
	hack/undeploy.sh
