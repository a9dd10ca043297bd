# Each target first sees to the environment (`make env`), which is silent and quick once it is there.
# ARGS goes to the program: make test ARGS="tests/devbroker -k port"

.DEFAULT_GOAL := help
.PHONY: help env demo test test-long test-fast check docs bench chaos fuzz fmt lock sbom audit test-pythons clean
bin := .venv/bin
ARGS ?=
# one for each of two cores
WORKERS := --numprocesses 2
# without a broker and Spark; no more folders than run in 90 s on 2 cores
FAST := tests/api tests/engine tests/enrichment tests/formats tests/reference tests/services --ignore tests/services/test_live.py
# no advertisement of a successor in each build of the site
export NO_MKDOCS_2_WARNING := 1

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: ## Python packages in .venv, a JDK, the development broker's jars
	@scripts/setup_env.sh

demo: env ## the whole path on a broker of its own, with made-up events
	@$(bin)/moneystate demo $(ARGS)

test: env ## the tests, with a real broker and Spark
	@$(bin)/pytest -q $(or $(ARGS),$(WORKERS) tests)

test-long: env ## the slow tests that make test leaves out, and all examples of property tests
	@MONEYSTATE_TEST_EXAMPLES=all $(bin)/pytest -q -m "long or property" $(or $(ARGS),$(WORKERS) tests)

test-fast: env ## the tests of the rules and the engine, without a broker and Spark
	@$(bin)/pytest -q $(WORKERS) $(FAST) $(ARGS)

check: env ## what CI checks beside the tests: lint, format, types, import contracts, scripts, documentation
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/lint-imports
	@set -e; for check in scripts/check_*.py; do echo "$$check"; $(bin)/python $$check; done
	@set -e; for check in scripts/check_*.sh; do echo "$$check"; $$check; done
	$(bin)/mkdocs build --strict

docs: env ## the documentation site on 127.0.0.1:8000 (ARGS=build: in build/site)
	@$(bin)/mkdocs $(or $(ARGS),serve)

bench: env ## throughput and latency
	@$(bin)/python -m tests.bench $(if $(PEERS),--peers $(PEERS)) $(ARGS)

chaos: env ## kills and restarts of the real processes, for longer than the tests do
	@$(bin)/python -m tests.chaos $(ARGS)

fuzz: env ## damaged and arbitrary inputs for all decoders, for longer than the tests do
	@$(bin)/python -m tests.fuzz $(ARGS)

fmt: env ## format, and mend what the linter can
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

lock: env ## requirements.lock from pyproject.toml and requirements.in (ARGS=--upgrade: newest versions)
	@scripts/lock.sh $(ARGS)

sbom: env ## build/sbom.cdx.json: all packages and jars, in CycloneDX
	@$(bin)/python scripts/make_sbom.py $(ARGS)

audit: env ## asks PyPI for advisories about the locked packages (needs the network)
	@scripts/audit.sh $(ARGS)

test-pythons: env ## types and fast tests on Python 3.12 and 3.13, where they are (PYTHONS="NAME ...": others)
	@scripts/test_pythons.sh $(FAST) $(ARGS)

clean: ## all that was made in this folder; the jars in the cache folder stay
	rm -rf .venv .env.lock build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log *.so moneystate/engine/.compiled
	find moneystate services state_tools tests -name '__pycache__' -prune -exec rm -rf {} +
	find moneystate services state_tools -name '*.so' -delete
