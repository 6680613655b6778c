# Quiver's doors. 'make demo' and 'make test' are all that a newcomer needs.

# Debian's Python: pytest and scapy are its packages.
PYTHON ?= /usr/bin/python3
# Options for the end-to-end tests, such as PYTEST="-k arp -x".
PYTEST ?=
# How many end-to-end tests run at once.
AT_ONCE ?= 4
# Where 'make install' puts things, and which build.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR ?=
BINARY ?= target/release/quiver

TEST = PYTHON='$(PYTHON)' PYTEST='$(PYTEST)' AT_ONCE='$(AT_ONCE)' scripts/test.sh

.DEFAULT_GOAL := help
# One after the other: two things that are timed at once on few cores mislead.
.NOTPARALLEL:
.PHONY: help deps build demo test test-quick test-rust test-models test-e2e bench bench-memif bench-loadtest \
	bench-keep bench-check figures fuzz graph lint clean install uninstall

help: ## List these targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/p' Makefile | awk -F '\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'

deps: ## Check for the programs that demo and tests use; as root, install what is missing
	@scripts/dependencies.sh test

build: ## Build the release binary, target/release/quiver (debug information beside it: quiver.debug)
	@scripts/dependencies.sh build
	cargo build --release --locked -p quiver
	@scripts/split-debug.sh target/release/quiver

demo: build ## Route real traffic between two hosts and show it (as root; PLAY=1 to stay and play)
	@scripts/dependencies.sh demo
	@scripts/demo.sh $(if $(PLAY),--play)

test: deps ## Run all tests: 15 to 16 minutes on two cores, build included (the end-to-end ones as root)
	@$(TEST) crates models end-to-end

test-quick: ## Without the slow tests, for each change: 4 minutes after a build
	@QUICK=1 $(TEST) crates end-to-end

test-rust: ## Only the tests of the crates
	@$(TEST) crates

test-models: ## Only the models: every interleaving of readers and a writer
	@$(TEST) models

# Against a build with debug assertions: it checks its packet ledger every round.
test-e2e: ## Only the end-to-end tests (PYTEST="-k arp" some of them; AT_ONCE=1 one after the other)
	@$(TEST) end-to-end

bench: build ## Measure what a packet costs in all scenarios and modes, memif, and the load tester
	@$(PYTHON) bench/bench.py run
	@$(PYTHON) bench/memif.py run
	@$(PYTHON) bench/loadtest.py run

bench-memif: build ## Forwarding between two memifs, against dpdk-testpmd and l3fwd (KEEP=1: keep and draw it)
	@$(PYTHON) bench/memif.py $(if $(KEEP),keep,run)

bench-loadtest: build ## The load tester itself: rate, pacing, the cost of accounting (KEEP=1: kept)
	@$(PYTHON) bench/loadtest.py $(if $(KEEP),keep,run)

bench-keep: build ## The same, kept under bench/results by commit, and drawn into docs/fast-path.svg
	@$(PYTHON) bench/bench.py keep
	@$(PYTHON) bench/picture.py

bench-check: build ## Compare this build with that of the results kept last, in turns (BASE=commit ONLY=scenario)
	@$(PYTHON) bench/bench.py check $(if $(BASE),--base $(BASE)) $(if $(ONLY),--only $(ONLY))

figures: build ## Measure the daemon: start to first packet, idle CPU, memory, workers, a full table by BGP (as root)
	@$(PYTHON) tests/figures.py
	@$(PYTHON) tests/worker_figures.py
	@$(PYTHON) tests/linux_figures.py
	@$(PYTHON) tests/linux_path_figures.py
	@$(PYTHON) tests/linux_rounds.py

# What is found worth keeping goes into target/fuzz/TARGET; 'scripts/fuzz.sh keep TARGET' takes the
# least of it that covers as much over into fuzz/corpus, which 'make test' replays.
fuzz: ## Feed a parser with what a fuzzer makes up (TARGET=frames SECONDS=600; without TARGET all, in turns)
	@scripts/fuzz.sh run '$(or $(SECONDS),600)' $(TARGET)

# The drawing's text comes from the program; a test keeps the two equal.
graph: ## Draw docs/graph.svg anew (needs Graphviz)
	QUIVER_DRAW=1 cargo test -p quiver-capabilities --test graph --locked the_drawing_in_docs
	dot -Tsvg docs/graph.dot -o docs/graph.svg

lint: ## Check formatting and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

install: ## Install what 'make build' has built (PREFIX=/usr/local, SYSCONFDIR=/etc, DESTDIR=; as root)
	@PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DESTDIR='$(DESTDIR)' scripts/install.sh install '$(BINARY)'

uninstall: ## Remove what was installed; a changed configuration stays
	@PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DESTDIR='$(DESTDIR)' scripts/install.sh uninstall

clean: ## Remove all that was built
	cargo clean
