# The targets that the README names. Every one of them works in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run test check lint types bench eval lock clean

# The runtime environment: every requirement by hash, then the project itself without looking anything up.
$(VENV)/.runtime: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(PIP) install --require-hashes -r requirements-dev.lock
	touch $@

test: lint types $(VENV)/.dev
	$(BIN)/python -m pytest

check: lint types $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# Needs uv (in the dev extra). The lock files name no index host.
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --group build --generate-hashes --no-emit-index-url --no-header --quiet
lock: $(VENV)/.dev
	$(LOCK) --extra ingest --extra local --extra mcp -o requirements.lock
	$(LOCK) --extra ingest --extra local --extra mcp --extra dev -c requirements.lock -o requirements-dev.lock

clean:
	rm -rf $(VENV) local .mypy_cache .pytest_cache .ruff_cache .hypothesis
