# Everything sets itself up: a fresh clone needs only Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DATA   := $(abspath ../shared/data)

# Tests and benchmarks that need the public data sets find them here; without the folder they are skipped.
ifneq ($(wildcard $(DATA)/README.md),)
export CONSILIENCE_DATA ?= $(DATA)
endif

.PHONY: demo test test-browser lint types layers unit docs bench seeds paper methods field ranking structured tables subspaces scale fuzz torture libraries features test-deep deep clean

demo: $(READY)
	$(BIN)/consilience demo --out run

test: lint types layers unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

# One thread per process for matrix products: the processes take all cores already.
unit: export OMP_NUM_THREADS = 1
unit: $(READY)
	$(BIN)/pytest -n auto

# Debian's chromium, if there is none and we may install it; CHROMIUM=/path/to/one names another.
test-browser: $(VENV)/.browser
	@test -n "$(CHROMIUM)" || command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }
	$(BIN)/pytest -m browser tests/browser

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.peers
	$(BIN)/python -m benchmarks bench

# All tables and figures of the documents: published figures, ours and a verdict; TRIALS=20 has as many crowds as they.
TRIALS ?= 3
seeds: export BENCH_TRIALS = $(TRIALS)
seeds: export CONSILIENCE_TRIALS = $(TRIALS)
seeds: export BENCH_ITEMS = 10000
seeds: export BENCH_SECONDS = 15
seeds: export OMP_NUM_THREADS = 1
seeds: $(VENV)/.peers
	$(BIN)/python -m benchmarks seeds

paper: $(VENV)/.peers
	$(BIN)/python -m benchmarks paper

methods: $(VENV)/.peers
	$(BIN)/python -m benchmarks methods

field: $(VENV)/.peers
	$(BIN)/python -m benchmarks field known_answers thinned

ranking: $(VENV)/.peers
	$(BIN)/python -m benchmarks ranking

structured: $(VENV)/.peers
	$(BIN)/python -m benchmarks structured

tables: $(VENV)/.peers
	$(BIN)/python -m benchmarks tables

subspaces: $(VENV)/.peers
	$(BIN)/python -m benchmarks subspaces

scale: $(READY)
	$(BIN)/python -m benchmarks scale

# Bytes at random for every reader of files; SECONDS=600 runs each for ten minutes.
SECONDS ?= 120
fuzz: $(VENV)/.fuzz
	$(BIN)/python -m benchmarks.fuzz --seconds $(SECONDS)

# Kills, full disks, damaged files and bad inputs; `make torture SECONDS=3600` takes longer.
torture: SECONDS = 600
torture: $(READY)
	$(BIN)/python -m benchmarks.torture --seconds $(SECONDS)

# The other libraries bring PyTorch along, so they get a folder of their own.
libraries: $(VENV)-libraries/.ready
	$(VENV)-libraries/bin/python -m benchmarks libraries

# Features and classifiers next to cleanlab and Snorkel.
features: $(VENV)-libraries/.ready
	$(VENV)-libraries/bin/python -m benchmarks features

# CrowdLayer and DL-MV need PyTorch; its build for the processor alone is smaller, where the index has one.
test-deep: $(VENV)/.deep
	$(BIN)/pytest -m deep tests/deep

deep: $(VENV)/.deep
	$(BIN)/python -m benchmarks deep

clean:
	rm -rf $(VENV) $(VENV)-libraries build dist docs/_build run .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Python 3.11 or later is needed; name one with make PYTHON=python3.12 …"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)-libraries/.ready: pyproject.toml
	test -x $(VENV)-libraries/bin/python || $(PYTHON) -m venv $(VENV)-libraries
	$(VENV)-libraries/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[libraries]'
	@touch $@

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

$(VENV)/.deep: $(READY)
	$(BIN)/python -c 'import torch' 2>/dev/null || \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0+cpu' 2>/dev/null || \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0' 2>/dev/null || true
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[deep]'
	@touch $@

$(VENV)/.browser: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	@touch $@

$(VENV)/.fuzz: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@touch $@

$(VENV)/.peers: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]'
	@touch $@
