# Each target does its own set-up and is quick the second time.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
INSTALL := $(BIN)/uv pip install --quiet --python $(PY)
UV := $(VENV)/.uv
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs
SPARK := $(VENV)/.spark
BYTECODE := $(VENV)/.bytecode
LOCKS := infra/locks
CODEC := $(wildcard codec/native/*.pyx codec/native/*.pxd)
# The first of these that is there and works.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14 python3
# Two cores are meant: a test that waits for a process leaves its core to the third.
JOBS ?= 3
ARGS ?=
BASE ?= main
VERSION ?=
WHEELS ?=
# What `make mutants` tries (tests/mutants/__main__.py).
TIER ?=
TURN ?=
SAMPLE ?=
# Where it is set, each of the hundreds of processes of a run compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help up down install setup jars docs docs-reference spark-setup spark-oldest spark-long spark-package helm demo test test-rest test-all test-quick containers kubernetes tiers answers style lint format services bench bench-all chaos laws mutants compiled wheels compiled-wheels release lock audit sbom clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(PY):
	@for python in $(PYTHONS); do \
	    if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null; then \
	        echo "making $(VENV) with $$($$python --version)"; exec $$python -m venv $(VENV); \
	    fi; \
	done; \
	echo "no Python 3.11 to 3.14 found (tried $(PYTHONS)); install one, or: make PYTHONS=/path/to/python ..." >&2; \
	exit 1

# It installs in a third of pip's time.
$(UV): $(LOCKS)/uv.txt | $(PY)
	@$(PY) -m pip --disable-pip-version-check --quiet install --require-hashes -r $<
	@touch $@

$(RUNTIME): $(LOCKS)/run.txt $(LOCKS)/build.txt pyproject.toml inorder/pyproject.toml setup.py $(CODEC) | $(UV)
	@echo "installing what inorder needs"
	@$(INSTALL) --require-hashes -r $(LOCKS)/run.txt -r $(LOCKS)/build.txt
	@PYTHONWARNINGS=ignore $(INSTALL) --no-deps --no-build-isolation --editable ./inorder --editable .
	@touch $@

$(DEV): $(LOCKS)/tests.txt $(RUNTIME)
	@echo "installing the tools for tests"
	@$(INSTALL) --require-hashes -r $(LOCKS)/tests.txt
	@touch $@

$(DOCS): $(LOCKS)/docs.txt $(DEV)
	@echo "installing what makes the site"
	@$(INSTALL) --require-hashes -r $(LOCKS)/docs.txt
	@touch $@

$(SPARK): $(LOCKS)/spark.txt $(RUNTIME)
	@echo "installing Spark"
	@$(INSTALL) --require-hashes --no-build-isolation -r $(LOCKS)/spark.txt
	@touch $@

# While packages and jars come: three workers would each compile the tests and all that they import.
$(BYTECODE): | $(DEV)
	@INORDER_TIER=first $(PY) -m pytest --collect-only -q --ignore tests/spark_analytics >/dev/null 2>&1 || true
	@touch $@

install: $(RUNTIME) ## the virtual environment .venv with what inorder needs to run

setup: $(DEV) $(SPARK) ## the virtual environment .venv with all that is needed, tools for tests too

demo: $(RUNTIME) ## the whole chain in one process, before your eyes (ARGS=...)
	@$(BIN)/inorder demo $(ARGS)

up: ## Kafka, Redis, two workers, sync server, Prometheus and Grafana in containers; down ends them
	@docker info >/dev/null 2>&1 || { echo "make up wants Docker (or what answers as docker) with its engine running; without one: make demo, or inorder dev" >&2; exit 1; }
	@docker compose version >/dev/null 2>&1 || { echo "make up wants Docker's plugin compose; install docker-compose-plugin (of Docker), docker-compose-v2 (of Ubuntu) or docker-compose (of Debian 13)" >&2; exit 1; }
	@docker compose -f infra/compose.yaml up --build --detach --wait
	@echo "the page: http://localhost:8081  Prometheus: http://localhost:9090  Grafana: http://localhost:3000"

down: # what `make up` has started; its volumes stay
	@docker compose -f infra/compose.yaml down

jars: $(RUNTIME) # Java, Maven, and the jars of the broker and of Spark's connector
	@infra/ensure.sh java
	@$(PY) -m infra.jars broker

services: # Java, Maven, Redis, PostgreSQL, Prometheus and Chromium, for the tests that need them
	@infra/ensure.sh

spark-setup: $(SPARK) services ## pyspark, and the jars with which it reads Kafka
	@$(PY) -m infra.jars lakes
	@$(PY) -m infra.archives 2>/dev/null

spark-long: $(DEV) spark-setup ## Spark on a million events, killed twice (ARGS=...)
	@$(PY) -m pytest -m spark_long -s $(ARGS)

# In an environment of its own, whose processes see no other Spark.
spark-oldest: ## the tests of Spark on 4.0, the oldest release that is taken (ARGS=...)
	@$(MAKE) VENV=.cache/venv-spark-4.0 setup services .cache/venv-spark-4.0/.docs
	@.cache/venv-spark-4.0/bin/python -m pip --quiet install --no-deps --no-build-isolation pyspark==4.0.0
	@.cache/venv-spark-4.0/bin/python -m pytest -m spark $(ARGS)

spark-package: spark-setup ## what spark-submit needs, into dist/spark (ARGS=DIR)
	@$(PY) -m infra.spark.package $(ARGS)

helm: $(DEV) # built where only Go is there
	@$(PY) -m infra.helm

test: ## each promise once, and the tests that catch most: eight minutes on a new machine (ARGS=..., JOBS=3)
	@$(MAKE) --jobs 3 $(SPARK) jars $(BYTECODE) style; echo "set-up: $$SECONDS s"
	@INORDER_TIER=first $(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-rest: ## all other tests, types, more services: half an hour (ARGS=..., JOBS=3)
	@$(MAKE) $(DEV) $(SPARK) $(DOCS); $(MAKE) --jobs 2 lint spark-setup helm; echo "set-up: $$SECONDS s"
	@INORDER_TIER=rest $(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-all: ## both, as CI does, and the containers
	@$(MAKE) test
	@$(MAKE) test-rest
	@$(MAKE) containers

containers: $(DEV) jars ## the image, make up and testcontainers, on a private Docker engine of root's; half an hour (ARGS=...)
	@$(PY) -m pytest -m containers tests/infra/containers $(ARGS)

# None of these waits for another process, so a worker for each core is enough.
test-quick: style ## style, and what a change in the core needs and takes below a second each
	@$(PY) -m pytest -q -n auto --dist worksteal $(ARGS) -m "not kafka and not slow and not chaos and not long" \
	    tests/topology tests/laws/test_order.py tests/laws/test_figures.py tests/test_tidy.py

# A test that fails, as the one that wants each test in a tier, has its seconds too.
CATCHES := build/mutants/54-1-turn-0-catches
tiers: $(DEV) $(DOCS) spark-setup jars helm ## tests/tiers.toml from a measured run: of new tests (ARGS=modules), or of all, after make mutants TURN=0
	@[[ -n "$(ARGS)" || -s $(CATCHES) ]] || { echo "run make mutants TURN=0 first: it says which test catches which fault" >&2; exit 1; }
	@[[ "$(ARGS)" != *[[]* ]] || { echo "name functions or modules, not cases: a function is measured with all of them" >&2; exit 1; }
	@rm -f build/seconds
	-@INORDER_SECONDS=build/seconds INORDER_DAY=0 INORDER_TURN=0 $(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)
	@$(PY) -m tests.tiers build/seconds $(if $(ARGS),,$(CATCHES))

style: $(DEV) # style, who may import whom, the Dockerfile
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "not formatted; run: make format" >&2; exit 1; }
	@found=$$($(BIN)/lint-imports --no-cache --no-logo) || { echo "$$found"; exit 1; }
	@$(BIN)/hadolint Dockerfile infra/spark/Dockerfile
	@for script in infra/*.sh .ci/run; do bash -n $$script; done

# mypy takes one core for a minute or two.
lint: style $(SPARK) ## style and types
	@$(BIN)/mypy --no-error-summary
	@echo "lint: clean"

format: $(DEV) ## lay the code out, mend what ruff can mend
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

answers: $(DEV) ## compares the core's answers of this tree and of BASE=revision (SEED=... repeats a run)
	@$(PY) -m tests.answers $(BASE)

docs: $(DOCS) ## the site of docs/ and the docstrings, in build/site; a warning is an error
	@rm -rf build/site
	@$(PY) -m sphinx --quiet --fresh-env --fail-on-warning --keep-going --jobs auto \
	    -c docs -d build/doctrees . build/site
	@$(PY) docs/links.py build/site
	@echo "build/site/index.html"

docs-reference: $(RUNTIME) ## the pages that are made from code: topology, commands, metrics
	@$(PY) docs/generate.py

bench: $(DEV) services ## all benchmarks, as ratios in one run
	@$(PY) -m benchmarks $(ARGS)

bench-all: $(DEV) services ## entries side by side: benchmarks/report.csv (ARGS=...)
	@$(PY) -m benchmarks.report $(ARGS)

bench-%: $(DEV) services ## one benchmark by its name (ARGS=...)
	@$(PY) -m benchmarks $* $(ARGS)

bench-spark: spark-setup

chaos: $(DEV) $(SPARK) services ## kill -9, pauses, broker restarts, late requests, for minutes
	@$(PY) -m pytest -m chaos --verbose $(ARGS)

# A cluster that is there has its images.
kubernetes: $(DEV) $(if $(INORDER_KUBECONFIG),,jars) ## the chart on a node of Kubernetes while its pods are replaced and killed, as root; or on the cluster of INORDER_KUBECONFIG
	@$(PY) -m pytest -m kubernetes --verbose $(ARGS) tests/infra/kubernetes

# `make test-rest` takes the seeds of one day (tests/seeds.py): here are those of all days, and for patterns more.
laws: $(DEV) spark-setup ## the seeds of all days, patterns over ten thousand streams, and what else is long (ARGS=...)
	@INORDER_DAY=0-49 $(PY) -m pytest -n $(JOBS) --timeout 1800 tests/topology/queries/pattern $(ARGS)
	@INORDER_DAY=0-6 $(PY) -m pytest -n $(JOBS) --timeout 1800 --ignore tests/topology/queries/pattern \
	    tests/topology tests/laws tests/simulation tests/cli/files/test_replay_cuts.py tests/cli/audit \
	    tests/codec tests/recordings tests/inorder/test_ordering.py tests/agents/stage/test_input_lag.py \
	    tests/agents/stage/test_formats_inlet.py tests/spark_analytics/test_topic_source.py \
	    tests/spark_analytics/backfill/test_stretches.py $(ARGS)
	@INORDER_DAY=0-20 $(PY) -m pytest -n $(JOBS) --timeout 1800 tests/laws/test_laws.py \
	    tests/topology/order/merge/test_operator.py tests/agents/stage/test_restarts.py $(ARGS)
	@INORDER_TURN=all $(PY) -m pytest -n $(JOBS) -m "in_turns and not chaos and not long and not spark_long" \
	    --ignore tests/topology --ignore tests/laws --ignore tests/simulation $(ARGS)
	@$(PY) -m pytest -n $(JOBS) --timeout 600 -m long $(ARGS)
	@infra/codec_fuzz.sh $(PY)

mutants: $(DEV) ## plants 200 small faults and names those that no test without services catches; an hour or two (RESUME=1, PART=10, TIER=first)
	@JOBS=$(JOBS) TIER=$(TIER) TURN=$(TURN) SAMPLE=$(SAMPLE) $(PY) -m tests.mutants

compiled: $(DEV) ## the core compiled by mypyc, its tests run against it
	@infra/compiled.sh $(PY) -n $(JOBS) $(ARGS)

wheels: $(DEV) ## both distributions, inorder and inorder-engine, pure, into dist/
	@infra/wheels.sh $(PY)

compiled-wheels: $(DEV) ## the same with the core compiled for each CPython that is here; minutes
	@infra/compiled_wheels.sh $(ARGS)

# Tests are not part of it: CI runs them first. It takes a compiler, and Docker or root.
release: $(DOCS) ## all parts of a release, built and tried, into dist/; publishes nothing (VERSION=..., WHEELS=folder)
	@infra/release.sh $(PY) "$(VERSION)" "$(WHEELS)"

# Pins stay as they are where pyproject.toml allows; LOCK_ARGS=--upgrade renews them.
LOCK_ARGS ?=

lock: $(DEV) ## infra/locks anew from pyproject.toml
	@infra/locks.sh $(BIN)/uv $(LOCK_ARGS)
	@$(PY) -m infra.notice

audit: $(DEV) ## known faults of what is pinned; a loud word where the database cannot be reached
	@$(PY) -m infra.audit $(BIN)/pip-audit $(LOCKS)/run.txt $(LOCKS)/build.txt $(LOCKS)/spark.txt

# The image and the wheel with all extras but Spark's; and Spark's jobs.
sbom: $(RUNTIME) ## the list of parts of a release, CycloneDX, into dist/
	@$(PY) -m infra.sbom dist/inorder-engine.cdx.json $(LOCKS)/run.txt
	@$(PY) -m infra.sbom dist/inorder-engine-spark.cdx.json $(LOCKS)/run.txt $(LOCKS)/spark.txt

clean: ## what was built or cached; not .venv, not the broker's jars
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
