# One command for each thing a person wants; `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help quickstart test format

help:
	@echo "make quickstart   train a small ablation on the embedded corpus and print its table"
	@echo "make test         format, lint, imports, types, tests"
	@echo "make format       let ruff format the code"

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

quickstart: $(VENV)/installed
	$(BIN)/python -m experiments.quickstart --workdir=runs/quickstart

test: $(VENV)/installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/pyright
	JAX_PLATFORMS=cpu $(BIN)/pytest --numprocesses=auto --maxprocesses=4

format: $(VENV)/installed-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
