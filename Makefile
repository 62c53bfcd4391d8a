# Pawl: what one needs, by name. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/pawlsync/pawl/internal/cli.version=$(VERSION)

# Every Go module of the repository, the root first.
MODULES := . plugins sdk/go sdk/abi/gen bench
PLUGINS := http kube pawl spicedb
WASM    := $(PLUGINS:%=internal/bundled/plugins/%.wasm)

# The tests want the shipped plugins: a missing one fails them instead of skipping.
export REQUIRE_PLUGINS = 1

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: plugins ## build bin/pawl and the programs of the quick start
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/pawl ./examples/quickstart/...

.PHONY: plugins
plugins: $(WASM) sdks ## build the shipped plugins, and pack the SDKs, into the folders that are embedded

.PHONY: sdks
sdks:
	@for l in go rust c; do $(GO) run ./internal/scaffold/pack sdk/$$l internal/scaffold/sdk/$$l.zip; done

# Go's own build cache makes an unchanged plugin cheap; its file is touched only
# when its bytes change, so that nothing after it is built anew.
$(WASM): internal/bundled/plugins/%.wasm: FORCE
	@cd plugins && GOOS=wasip1 GOARCH=wasm $(GO) build -buildmode=c-shared -trimpath -ldflags='-s -w -buildid=' -o ../$@.new ./$*
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; echo "built $@"; fi

.PHONY: FORCE
FORCE:

.PHONY: demo
demo: build ## watch resources travel, survive two deaths, and end acknowledged
	@bin/demo -pawl bin/pawl -target bin/target

# Not with -trimpath: the demo finds the modules of the servers beside its source.
.PHONY: demo-kube
demo-kube: build ## the same for Kubernetes and SpiceDB, on real servers: ten minutes to build them once
	@$(GO) run ./examples/kube-spicedb/demo -pawl bin/pawl

.PHONY: test
test: plugins ## every test of every module, with the race detector
	@for m in $(MODULES); do echo "== test $$m"; (cd $$m && $(GO) test -race -timeout 60m ./...); done
	@echo "== test what takes too long with the race detector"
	@$(GO) test -timeout 60m -run TestEachCheckFailsOnTheFaultMadeForIt ./internal/conformance
	@$(GO) test -timeout 60m ./engine/saga
	@echo "== test whether a neighbour suffers, with nothing beside it"
	@$(GO) test -timeout 60m ./test/hostile

.PHONY: test-quick
test-quick: plugins ## the quick tests alone, without the race detector
	@for m in $(MODULES); do (cd $$m && $(GO) test -short ./...); done

.PHONY: drills
drills: plugins ## what happens in operation, at full size, and what an operator sees of it
	$(GO) test ./test/ops -count=1 -v -full -timeout 60m

.PHONY: saga-matrix
saga-matrix: plugins ## sagas on real servers: every fault, a hundred kills, a thousand rivals; docs/saga-matrix.md anew
	$(GO) test ./test/saga -count=1 -timeout 120m -whole -table $(CURDIR)/docs/saga-matrix.md

.PHONY: relay-rounds
relay-rounds: plugins ## pawls that send to each other: a hundred rounds of failing links and kills of both sides
	$(GO) test ./test/relay -count=1 -timeout 120m -run TestThePrincipal -v -rounds 100

.PHONY: check
check: format vet lint tidy generated ## format, vet, lint, import directions, generated files, go.mod

.PHONY: format
format:
	@bad=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$bad" ]; then echo "not formatted; run: gofmt -w" $$bad; exit 1; fi

.PHONY: vet
vet:
	@for m in $(MODULES); do (cd $$m && $(GO) vet ./...); done
	@cd plugins && GOOS=wasip1 GOARCH=wasm $(GO) vet ./http ./kube ./pawl ./testguest/...

.PHONY: lint
lint:
	@mkdir -p bin && $(GO) build -modfile=tools/go.mod -o bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	@for m in $(MODULES); do (cd $$m && $(CURDIR)/bin/staticcheck ./...); done

.PHONY: tidy
tidy:
	@for m in $(MODULES); do (cd $$m && $(GO) mod tidy -diff >/dev/null || { echo "$$m/go.mod is not tidy; run: cd $$m && go mod tidy"; exit 1; }); done

# The tests named …Fresh compare what is checked in with what the code generates.
.PHONY: generated
generated: plugins
	@$(GO) test -run 'Fresh|Golden|Scenarios|ImportDirections' ./... | { grep -v "no test" || true; }
	@cd sdk/abi/gen && $(GO) test -run Fresh .

.PHONY: generate
generate: plugins ## write the generated docs and golden files anew
	$(GO) test ./config ./internal/cli ./internal/conformance ./internal/metrics ./internal/server ./engine/reconcile -run 'Fresh|Golden|Scenarios' -update
	cd sdk/abi/gen && $(GO) run .

.PHONY: bench
bench: plugins ## every benchmark that the docs name, each with its ratio
	cd bench && $(GO) run . all

.PHONY: release
release: plugins ## build dist/: an archive of each platform, sums, bills of material; the same bytes each time
	@mkdir -p bin && $(GO) build -trimpath -buildvcs=false -modfile=tools/sbom/go.mod -o bin/cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	@rm -rf dist && VERSION=$(VERSION) deploy/release/build.sh dist

.PHONY: image
image: release ## build the image of the release for Linux, with buildah
	@deploy/image/build.sh dist $(VERSION)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist $(WASM) internal/scaffold/sdk/*.zip examples/quickstart/.demo examples/kube-spicedb/.demo
