# Each target first makes the layers of the environment that it needs (scripts/setup_env.sh), which are silent and quick once
# they are there.
# ARGS goes to the program: make test ARGS="tests/devbroker -k port"

.DEFAULT_GOAL := help
.PHONY: help env demo test test-long test-fast check docs bench chaos fuzz fmt lock sbom audit wheels test-pythons clean
bin := .venv/bin
layers := @scripts/setup_env.sh
ARGS ?=
# one for each of two cores
WORKERS := --numprocesses 2
# without a broker and Spark; no more folders than run in 90 s on 2 cores
FAST := tests/api tests/engine tests/enrichment tests/formats tests/reference tests/services --ignore tests/services/test_live.py
# no advertisement of a successor in each build of the site
export NO_MKDOCS_2_WARNING := 1

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: ## all that development needs: packages in .venv, a JDK, the development broker's jars, the compiled core
	$(layers) development core archive

demo: ## the whole path on a broker of its own, with made-up events
	$(layers) run-time
	@$(bin)/moneystate demo $(ARGS)

test: ## the tests, with a real broker and Spark
	$(layers) development core archive tools $(or $(ARGS),tests)
	@$(bin)/pytest -q $(or $(ARGS),$(WORKERS) tests)

test-long: ## the slow tests that make test leaves out, and all examples of property tests
	$(layers) development core archive tools $(or $(ARGS),tests)
	@MONEYSTATE_TEST_EXAMPLES=all $(bin)/pytest -q -m "long or property" $(or $(ARGS),$(WORKERS) tests)

test-fast: ## the tests of the rules and the engine, without a broker and Spark
	$(layers) development
	@$(bin)/pytest -q $(WORKERS) $(FAST) $(ARGS)

check: ## what CI checks beside the tests: lint, format, types, import contracts, scripts, documentation
	$(layers) development
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/lint-imports
	@set -e; for check in scripts/check_*.py; do echo "$$check"; $(bin)/python $$check; done
	@set -e; for check in scripts/check_*.sh; do echo "$$check"; $$check; done
	$(bin)/mkdocs build --strict

docs: ## the documentation site on 127.0.0.1:8000 (ARGS=build: in build/site)
	$(layers) development
	@$(bin)/mkdocs $(or $(ARGS),serve)

bench: ## throughput and latency
	$(layers) development core archive
	@$(bin)/python -m tests.bench $(if $(PEERS),--peers $(PEERS)) $(ARGS)

chaos: ## kills and restarts of the real processes, for longer than the tests do
	$(layers) development core archive tools tests/chaos
	@$(bin)/python -m tests.chaos $(ARGS)

fuzz: ## damaged and arbitrary inputs for all decoders, for longer than the tests do
	$(layers) development core
	@$(bin)/python -m tests.fuzz $(ARGS)

fmt: ## format, and mend what the linter can
	$(layers) development
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

lock: ## requirements.lock from pyproject.toml and requirements.in (ARGS=--upgrade: newest versions)
	$(layers) development
	@scripts/lock.sh $(ARGS)

sbom: ## build/sbom.cdx.json: all packages and jars, in CycloneDX
	$(layers) development
	@$(bin)/python scripts/make_sbom.py $(ARGS)

audit: ## asks PyPI for advisories about the locked packages (needs the network)
	$(layers) development
	@scripts/audit.sh $(ARGS)

wheels: ## dist/: a wheel with the compiled core for each of Python 3.11, 3.12 and 3.13 that is here (PYTHONS="NAME ...": others)
	$(layers) development
	@scripts/make_wheels.sh $(ARGS)

test-pythons: ## types and fast tests on Python 3.12 and 3.13, where they are (PYTHONS="NAME ...": others)
	$(layers) development
	@scripts/test_pythons.sh $(FAST) $(ARGS)

clean: ## all that was made in this folder; the jars in the cache folder stay
	rm -rf .venv .env.lock build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log *.so moneystate/engine/.compiled
	find moneystate services state_tools tests -name '__pycache__' -prune -exec rm -rf {} +
	find moneystate services state_tools -name '*.so' -delete
