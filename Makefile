# Shortcuts. Everything here is one or two go commands; .ci/run holds the steps
# that a change has to pass.

.DEFAULT_GOAL := help

GO      ?= go
ARGS    ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X github.com/peil-stream/peil/internal/cli.version=$(VERSION)

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "; print "Usage: make <target>\n"} \
		/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## Build bin/peil with the version of the working tree.
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/peil ./cmd/peil

.PHONY: install
install: ## Install peil into GOBIN.
	CGO_ENABLED=0 $(GO) install -trimpath -ldflags '$(LDFLAGS)' ./cmd/peil

.PHONY: run
run: ## Run peil: make run ARGS='config print'.
	$(GO) run ./cmd/peil $(ARGS)

.PHONY: demo
demo: ## Run the demo: the whole job on a simulated city, no services needed.
	$(GO) run ./cmd/peil demo $(ARGS)

.PHONY: test
test: ## Run all tests that need nothing but Go.
	$(GO) test ./...

.PHONY: test-short
test-short: ## Run the tests without the long ones, in under a minute.
	$(GO) test -short ./...

.PHONY: test-race
test-race: ## Run the packages that start goroutines under the race detector.
	./.ci/run race

.PHONY: test-captures
test-captures: ## Run the tests on real captures (PEIL_CAPTURES says where they are).
	./.ci/run captures

.PHONY: test-integration
test-integration: ## Run the tests on a real Kafka and Postgres, which they start (Java, Maven, PostgreSQL).
	./.ci/run integration

.PHONY: test-fuzz
test-fuzz: ## Run every fuzz target for FUZZTIME (20000x runs, or a time such as 1m).
	./.ci/run fuzz

.PHONY: bench
bench: ## Run the benchmarks: make bench ARGS='-count=10'.
	$(GO) test -run '^$$' -bench . -benchmem $(ARGS) ./...

.PHONY: lint
lint: ## Run golangci-lint; it is installed when missing.
	./.ci/run lint

.PHONY: fmt
fmt: ## Format the code.
	gofmt -s -w $$(git ls-files '*.go')

.PHONY: fix
fix: ## Modernise the code and let the linters mend what they can.
	$(GO) fix ./...
	./.ci/run lint-fix

.PHONY: check
check: ## Check that the module files, the format and the vet findings are clean.
	./.ci/run tidy format vet

.PHONY: clean
clean: ## Remove what builds, the demo and the replay of the README leave behind.
	rm -rf bin peil-data nl coverage.txt
