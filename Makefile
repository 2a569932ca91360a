SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The places for boxes that the end-to-end tests run in; "make test" sets all of them up.
PLACES ?= docker podman podman-rootless gvisor gvisor-rootless
# What no test may skip for want of.
REQUIRE ?= $(subst $(space),$(comma),$(PLACES)),docker-runsc,bubblewrap,python-plugin,uv,clients,s3,postgres,root
TEST_TIMEOUT ?= 15m

GO_BUILD = CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'
# Podman's client library needs these tags to do without C libraries. What is built without them
# has no Podman backend.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -tags=remote,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper)
BACKENDS = $(notdir $(wildcard cmd/boxwright-backend-*))
AGENT_ARCHS = amd64 arm64
# The race detector needs a C compiler; without one the tests run without it.
RACE = $(if $(shell command -v "$$(go env CC)"),-race)

comma := ,
space := $(subst ,, )

TOOLS = $(CURDIR)/.tools/bin
BUF = go run github.com/bufbuild/buf/cmd/buf@v1.75.0
GOLANGCI_LINT = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
PROTOC_GEN_GO = google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
PROTOC_GEN_GO_GRPC = google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
PROTOC_GEN_GO_TTRPC = github.com/containerd/ttrpc/cmd/protoc-gen-go-ttrpc@v1.2.10

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the server, the agent and the backends into bin/
	$(GO_BUILD) -o bin/boxwright ./cmd/boxwright
	for arch in $(AGENT_ARCHS); do \
	  GOOS=linux GOARCH=$$arch $(GO_BUILD) -o bin/boxwright-agent-linux-$$arch ./cmd/boxwright-agent; \
	done
	install -m 755 bin/boxwright-agent-linux-$$(go env GOARCH) bin/boxwright-agent
	for backend in $(BACKENDS); do $(GO_BUILD) -o bin/$$backend ./cmd/$$backend; done

.PHONY: demo
demo: build ## Show what it does, on this machine, with the engine that it has or with none
	hack/demo.sh

.PHONY: engines
engines: ## Make every place for boxes available, with the images of the tests
	mkdir -p .test
	hack/engines.sh >.test/engines.new
	hack/python-plugin.sh >>.test/engines.new
	hack/clients.sh >>.test/engines.new
	hack/postgres.sh >>.test/engines.new
	mv .test/engines.new .test/engines

# The packages whose tests leave something out where something is missing: the others have nothing more to show.
ENGINE_TESTS = $(sort $(dir $(shell grep -rlP --include='*_test.go' '\.Skipf?\x28|test\.Serve\x28' adapters cmd core plugins ports proto)))

.PHONY: test
test: engines build lint test-unit ## Set up the engines, then lint and run every test
	set -a; . .test/engines; \
	export BOXWRIGHT_REQUIRE=$(REQUIRE) BOXWRIGHT_TEST_BIN=$(CURDIR)/bin; status=0; \
	go test -count=1 -p 3 -timeout $(TEST_TIMEOUT) $(addprefix ./,$(ENGINE_TESTS)) || status=1; \
	hack/e2e.sh $(PLACES) || status=1; \
	exit $$status # what fails in one stage does not hide what fails in the next

.PHONY: test-places
test-places: engines build ## Run the end-to-end tests in each of PLACES, and show case by place
	set -a; . .test/engines; \
	BOXWRIGHT_REQUIRE=$(REQUIRE) BOXWRIGHT_TEST_BIN=$(CURDIR)/bin hack/e2e.sh $(PLACES)

.PHONY: test-kills
test-kills: engines build ## Kill the server at 50 random moments under load, and look for what is lost or left
	set -a; . .test/engines; \
	BOXWRIGHT_KILLS=50 BOXWRIGHT_REQUIRE=$(REQUIRE) BOXWRIGHT_TEST_BIN=$(CURDIR)/bin E2E_RUN=TestKilledUnderLoad hack/e2e.sh $(firstword $(PLACES))

N ?= 10
.PHONY: conformance
conformance: engines build ## Run the official conformance suites N times (10) against the server
	set -a; . .test/engines; \
	BOXWRIGHT_TEST_CONFORMANCE=$(N) BOXWRIGHT_REQUIRE=$(REQUIRE) BOXWRIGHT_TEST_BIN=$(CURDIR)/bin E2E_RUN=TestConformance hack/e2e.sh docker

.PHONY: test-unit
test-unit: ## Run the tests that need no engine, with the race detector
	go test -short $(RACE) -timeout $(TEST_TIMEOUT) ./...

.PHONY: lint
lint: ## Check the form of Go, protobuf and shell files
	@unformatted=$$(gofmt -l .); \
	[ -z "$$unformatted" ] || { echo "run gofmt on:"; echo "$$unformatted"; exit 1; } >&2
	go vet ./...
	$(GOLANGCI_LINT) run --allow-parallel-runners
	$(BUF) lint
	if command -v shellcheck >/dev/null; then shellcheck -x hack/*.sh .ci/run; fi

.PHONY: proto
proto: ## Generate the Go code of the protocols
	GOBIN=$(TOOLS) go install $(PROTOC_GEN_GO)
	GOBIN=$(TOOLS) go install $(PROTOC_GEN_GO_GRPC)
	GOBIN=$(TOOLS) go install $(PROTOC_GEN_GO_TTRPC)
	PATH=$(TOOLS):$$PATH $(BUF) generate

.PHONY: golden
golden: ## Rewrite the golden files; review the diff
	packages=$$({ grep -rl --include='*_test.go' '"update"' . || true; } | xargs -r -n1 dirname | sort -u); \
	if [ -n "$$packages" ]; then go test -short -count=1 $$packages -update; fi

.PHONY: bench
bench: engines build ## Measure every place for boxes against its bare engine, side by side
	set -a; . .test/engines; go run ./hack/bench $(PLACES)

SOAK ?= 10000
.PHONY: soak
soak: engines build ## Measure what grows over 10,000 runs (SOAK) and with 200 sessions, in the first of PLACES
	set -a; . .test/engines; go run ./hack/bench -soak $(SOAK) $(firstword $(PLACES))

.PHONY: clean
clean: ## Delete what the other targets made here; caches and engines stay
	rm -rf bin dist .tools .test demo-output coverage.*
