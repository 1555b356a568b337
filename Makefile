# Everything is set up on first use: Python 3.11+ and a network to the package registries are enough, no root.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null || echo .cache/uv/bin/uv)
BIN := .venv/bin
PY := $(BIN)/python
STAMP := .venv/.installed
LOCK_HASH = $(shell cat requirements.lock pyproject.toml | sha256sum | cut -d' ' -f1)

.PHONY: help setup lock

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.cache/uv/bin/uv:
	$(PYTHON) -m venv .cache/uv
	.cache/uv/bin/python -m pip install --quiet uv

setup: $(UV)  ## make .venv exactly as the lock says (does nothing when it is so already)
	@if [ "$$(cat $(STAMP) 2>/dev/null)" != "$(LOCK_HASH)" ]; then \
	  [ -x $(PY) ] || $(UV) venv --quiet --python $(PYTHON) .venv; \
	  $(UV) pip sync --quiet --python $(PY) --require-hashes requirements.lock; \
	  $(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .; \
	  echo $(LOCK_HASH) > $(STAMP); \
	fi

lock: $(UV)  ## resolve the dependencies anew
	$(UV) pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements.lock $(LOCK_ARGS)
	@! grep -nE '://' requirements.lock
