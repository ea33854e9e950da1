# The targets that the README names. Every one of them works in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# What `make run` indexes and asks, and where it keeps it.
CATALOGUE ?= tests/corpus/catalogue.yaml
QUESTION ?= How do I install Orchard?
# The same within single quotes of a shell.
SPOKEN = $(subst ','\'',$(QUESTION))

# Processes that share the tests: half of their time is waiting for servers and child processes.
WORKERS ?= 2

.PHONY: run test check lint vocabulary types bench eval docs lock lock-check clean contract image image-test deploy

# Indexes the sample corpus with embedded Milvus and the embedded model, then asks one question of it.
run: export MILVUS_URI ?= local/corpus.db
run: $(VENV)/.runtime
	$(BIN)/kubeflow-corpus run docs --catalogue $(CATALOGUE)
	$(BIN)/kubeflow-corpus search docs "$(QUESTION)" --limit 2
	@printf '%s\n' '' 'Try next:' \
	  '  MILVUS_URI=$(MILVUS_URI) $(BIN)/kubeflow-corpus search docs "$(SPOKEN)" --limit 5 --trace' \
	  '  MILVUS_URI=$(MILVUS_URI) $(BIN)/kubeflow-corpus status' \
	  '  MILVUS_URI=$(MILVUS_URI) $(BIN)/kubeflow-corpus mcp-query search_kubeflow_docs "$(SPOKEN)"'

# The runtime environment: every requirement by hash, then the project itself without looking anything up.
$(VENV)/.runtime: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(PIP) install --require-hashes -r requirements-dev.lock
	touch $@

test: lint types $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: lint types $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

# The development questions over the real sources in ../shared, where they are there; local/eval.html says what was missed.
eval: $(VENV)/.dev
	$(BIN)/python -m tests.retrieval.development

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m tests.words

# Readers load the compiled words of the project without a YAML parser: after a change of sources/vocabulary.yaml.
vocabulary: $(VENV)/.dev
	$(BIN)/python -m kubeflow_corpus.sources.vocabulary_file

types: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python -m tests.benchmarks

# The reference pages again from the code, then the site in local/site; links and anchors that lead nowhere fail.
docs: $(VENV)/.dev
	$(BIN)/python -m tests.documents.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# A Milvus server and an embedding service of yours, in a throw-away database: make contract MILVUS_URI=... EMBEDDINGS_URL=...
contract: $(VENV)/.runtime
	MILVUS_URI="$(MILVUS_URI)" EMBEDDINGS_URL="$(EMBEDDINGS_URL)" $(BIN)/kubeflow-corpus contract

# The image, with docker, podman or buildah: make image PYTHON_IMAGE=...@sha256:... IMAGE=REGISTRY/NAME:VERSION
image:
	PYTHON_IMAGE="$(PYTHON_IMAGE)" IMAGE="$(IMAGE)" REQUIREMENTS="$(REQUIREMENTS)" PLATFORM="$(PLATFORM)" manifests/image/build.sh

# Builds it on a Debian base and runs graphs and server in it; needs root, buildah, debootstrap and dockerd.
image-test: $(VENV)/.dev
	$(BIN)/python -m tests.image $(IMAGE_TEST)

# Prints and applies what an overlay needs, in the right order: make deploy OVERLAY=oke (DEPLOY=--dry-run only prints).
deploy: $(VENV)/.dev
	$(BIN)/python -m manifests.deploy $(OVERLAY) $(DEPLOY)

# Needs uv (in the dev extra). The lock files name no index host.
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --group build --generate-hashes --no-emit-index-url --no-header --quiet
lock: $(VENV)/.dev
	$(LOCK) --extra ingest --extra local --extra mcp -o requirements.lock
	$(LOCK) --extra ingest --extra local --extra mcp --extra dev -c requirements.lock -o requirements-dev.lock
	$(LOCK) --extra ingest --extra mcp -c requirements.lock --override manifests/image/cluster-overrides.txt -o requirements-cluster.lock

# Wheels for amd64 and arm64, of everything in the image of a cluster.
lock-check: $(VENV)/.dev
	$(BIN)/python -m tests.locks

clean:
	rm -rf $(VENV) local .mypy_cache .pytest_cache .ruff_cache .hypothesis
