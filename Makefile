# One command for each thing a person wants; `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PARITY_VENV := .venv-parity
TPU_VENV := .venv-tpu
# Its CPU build is enough, where the package index offers one under this version.
TORCH := torch==2.13.0
# One more than there are cores, up to four: some tests wait for processes.
WORKERS := $(shell n=$$(($$(getconf _NPROCESSORS_ONLN) + 1)); echo $$((n < 4 ? n : 4)))

.PHONY: help quickstart ablation test parity tpu-check format

help:
	@echo "make quickstart   train a small ablation on the embedded corpus and print its table"
	@echo "make ablation     eight rows of Table 3 at tiny size, three seeds each"
	@echo "make test         format, lint, imports, types, tests"
	@echo "make parity       compare with PyTorch, transformers and CTranslate2 (installs them apart)"
	@echo "make tpu-check    compile the steps of base for a Cloud TPU, without one (installs apart)"
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

# One or two rows of each group; all of them take several times as long.
ABLATION_ROWS := base,A.h=1,B.d_k=8,C.N=1,C.d_model=64,D.dropout=0.1,D.smoothing=0,E.learned

ablation: $(VENV)/installed
	$(BIN)/python -m experiments.sweep table3 --base=configs/tiny.py --seeds=3 --parallel=2 \
	  --rows='$(ABLATION_ROWS)' --workdir=runs/ablation

test: $(VENV)/installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/pyright
	JAX_PLATFORMS=cpu $(BIN)/pytest --numprocesses=$(WORKERS) -m 'not parity and not tpu'

$(PARITY_VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(PARITY_VENV)
	$(PARITY_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(PARITY_VENV)/bin/python -m pip install --quiet $(TORCH)
	$(PARITY_VENV)/bin/python -m pip install --quiet --editable '.[parity,test]'
	touch $@

parity: $(PARITY_VENV)/installed
	JAX_PLATFORMS=cpu $(PARITY_VENV)/bin/pytest -m parity tests/interop tests/parity

$(TPU_VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(TPU_VENV)
	$(TPU_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(TPU_VENV)/bin/python -m pip install --quiet --editable '.[tpu,test]'
	touch $@

tpu-check: $(TPU_VENV)/installed
	JAX_PLATFORMS=cpu $(TPU_VENV)/bin/pytest -m tpu tests/tpu

format: $(VENV)/installed-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
