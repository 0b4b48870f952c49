# Two commands matter to a newcomer: `make demo` and `make test`. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROOMS := wheel shard coordinator workers results api alerts compose bench
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-quick check bench bench-quick bench-all bench-peers clean docs lock

help: ## print this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## make .venv with the locked packages, fetch Kafka's jars (skipped when done)

$(VENV)/.packages: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "shardwheel needs Python 3.11 or newer; $(PYTHON) is older. Try: make setup PYTHON=python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "setup: making $(VENV)"; $(PYTHON) -m venv $(VENV); } || { echo "setup: no virtual environment could be made: install python3-venv, or pass PYTHON=…" >&2; exit 1; }
	@echo "setup: installing the locked packages (about a minute the first time)"
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock || { echo "setup: the packages could not be installed: is the package registry within reach? Run 'make setup' again to go on." >&2; exit 1; }
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(READY): $(VENV)/.packages compose/jars.lock
	@$(BIN)/python -m shardwheel.compose.jars
	@$(BIN)/python -m shardwheel.compose.warm
	@touch $@

demo: $(READY) ## run the whole system with demo jobs until Ctrl-C (ONCE=1: check it, stop, exit)
	@$(BIN)/python -m shardwheel.compose.demo $(if $(ONCE),--once)

# Those that need servers wait a lot, the others and the simulation compute: side by side they take as long as one.
test: $(READY) check ## every check and every test (what CI runs)
	@$(BIN)/pytest -q -m "not servers" > $(VENV)/quick.log 2>&1 & quick=$$!; \
	  $(BIN)/pytest -q -m servers; code=$$?; \
	  wait $$quick || code=1; \
	  cat $(VENV)/quick.log; exit $$code

test-quick: $(READY) ## the tests that need no server
	@$(BIN)/pytest -q -m "not servers"

check: $(READY) ## format, lint, types, layers
	@$(BIN)/ruff format --check $(ROOMS) shardwheel tests examples
	@$(BIN)/ruff check $(ROOMS) shardwheel tests examples
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/mypy

bench: $(READY) ## run the wheel benchmark (others: .venv/bin/shardctl bench --help)
	@$(BIN)/shardctl bench wheel

bench-quick: $(READY) ## today's ratios beside the committed ones, under 5 minutes; fails if one fell by over 30%
	@$(BIN)/shardctl bench quick

bench-peers: $(READY) ## the same work on other schedulers (their packages go into the user's cache)
	@$(BIN)/shardctl bench peers

bench-all: $(READY) ## every benchmark, for a quiet machine (hours; skips what was done today); writes docs/benchmarks.md
	@$(BIN)/shardctl bench all

docs: $(READY) ## write docs/reference anew from the code
	@$(BIN)/python -m shardwheel.reference docs/reference

COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --upgrade -q
lock: ## write the locks anew from pyproject.toml (needs uv)
	$(COMPILE) --extra dev -o requirements.lock
	$(COMPILE) --extra peers -c requirements.lock -o requirements-peers.lock
	$(COMPILE) --extra peers-next -c requirements.lock -o requirements-peers-next.lock

clean: ## remove what make made here (not the cache of jars, not data of `shardctl dev`)
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
