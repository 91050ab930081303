# One command for each task; `make` alone lists them.
PYTHON ?= python3
# Installs the tested versions; with `CONSTRAINTS=`, the newest of everything.
CONSTRAINTS ?= constraints.txt
OLDEST_PYTHON := $(shell sed -n 's/^requires-python = ">=\(.*\)"$$/\1/p' pyproject.toml)
# cuda, cuda12 (drivers from before CUDA 13) or tpu: JAX for an accelerator instead of the CPU's.
EXTRA ?=
# Another Python or JAX, or no constraints: a separate environment.
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(shell \
  $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))$(if $(CONSTRAINTS),,-newest)$(EXTRA:%=-%)
BIN := $(VENV)/bin
PARITY_VENV := $(VENV)-parity
TPU_VENV := $(VENV)-tpu-check
GPU_EXTRA := $(or $(filter cuda%,$(EXTRA)),cuda)
GPU_VENV := $(VENV)-gpu-check
# The CPU build is enough, if the package index has one of this version.
TORCH := torch==2.13.0
# One more than the cores, up to four: some tests wait for processes.
WORKERS := $(shell n=$$(($$(getconf _NPROCESSORS_ONLN) + 1)); echo $$((n < 4 ? n : 4)))

.PHONY: help quickstart ablation bench walkthrough walk-check test slow browser faults parity gpu-check tpu-check plan twenty-steps smoke format constraints

help:
	@echo "make quickstart   train a small ablation on the embedded corpus, print its table;"
	@echo "                  EXTRA=cuda, cuda12 or tpu: on an accelerator (separate environment)"
	@echo "make ablation     eight rows of Table 3 at tiny size, three seeds each; EXTRA as above"
	@echo "make bench        measure speed here; AGAINST=torch,ctranslate2 compares (separate environment)"
	@echo "make walkthrough  regenerate the outputs and pictures of docs/walkthrough"
	@echo "make walk-check   check that every page of it is up to date, ten minutes"
	@echo "make test         format, lint, imports, types, all tests but the slowest"
	@echo "make slow         the slowest of make test, parity and tpu-check"
	@echo "make browser      test the pages of t2t-jax explain in headless Chromium, if installed"
	@echo "make faults       half an hour of kills, full disks, flipped bits and more, counted"
	@echo "make parity       compare with PyTorch, transformers and CTranslate2 (separate environment)"
	@echo "make gpu-check    float32, bfloat16, the same bits twice: a GPU against the CPU (separate environment)"
	@echo "make tpu-check    compile base's steps for a Cloud TPU without one (separate environment)"
	@echo "make plan         plan table3 at the paper's size on Cloud TPU: fit, hours, dollars"
	@echo "make smoke        quick check of another Python: make smoke PYTHON=python3.13"
	@echo "make format       format the code with ruff"
	@echo "make constraints  update constraints.txt, which pins every install, to the newest releases"

TOO_OLD := t2t_jax needs Python $(OLDEST_PYTHON) or newer, and $(PYTHON) is
INSTALL = $(@D)/bin/python -m pip install --quiet $(CONSTRAINTS:%=--constraint=%) --editable

$(VENV)/installed: PACKAGE := .$(EXTRA:%=[%])
$(PARITY_VENV)/installed: PACKAGE := .[$(EXTRA:%=%,)parity,test]
$(TPU_VENV)/installed: PACKAGE := .[tpu,test]
$(GPU_VENV)/installed: PACKAGE := .[$(GPU_EXTRA),test]

$(VENV)/installed $(PARITY_VENV)/installed $(TPU_VENV)/installed $(GPU_VENV)/installed: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; of = "%d.%d" % sys.version_info[:2]; sys.exit(sys.version_info < \
	  tuple(map(int, "$(OLDEST_PYTHON)".split("."))) and \
	  "$(TOO_OLD) " + of + ": make $(MAKECMDGOALS) PYTHON=python$(OLDEST_PYTHON)")'
	@test ! -e $(@D)/pyvenv.cfg -o -e $(@D)/made-by-make -o -e $@ || \
	  { echo "make would empty $(@D), which may not be its own: move it away, or delete it" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(@D)
	touch $(@D)/made-by-make
	$(@D)/bin/python -m pip install --quiet --upgrade pip
	$(INSTALL) '$(PACKAGE)'
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(INSTALL) '.[test]'
	touch $@

quickstart: $(VENV)/installed
	$(BIN)/python -m experiments.quickstart --workdir=runs/quickstart

# One or two rows of each group; all rows take several times as long.
ABLATION_ROWS := base,A.h=1,B.d_k=8,C.N=1,C.d_model=64,D.dropout=0.1,D.smoothing=0,E.learned
# A core, a GPU or a TPU chip each.
RUNS_AT_ONCE = $(shell $(BIN)/python -c 'from experiments.launchers.local import default_parallel as number; print(number(1))')

ablation: $(VENV)/installed
	$(BIN)/python -m experiments.sweep table3 --base=configs/tiny.py --seeds=3 \
	  --parallel=$(RUNS_AT_ONCE) \
	  --rows='$(ABLATION_ROWS)' --workdir=runs/ablation

# Also others, named by AGAINST; BENCH=--parts=step,train measures only these.
bench: $(if $(AGAINST),$(PARITY_VENV),$(VENV))/installed
	$(<D)/bin/python -m experiments.benchmarks --against=$(AGAINST) $(BENCH)

# Tests that another target runs.
ELSEWHERE := parity or gpu or tpu or browser or walkthrough
PYTEST_SUITE := JAX_PLATFORMS=cpu $(BIN)/pytest --numprocesses=$(WORKERS) --dist=worksteal
# One file, one process: some train a model first.
PYTEST_PARITY := JAX_PLATFORMS=cpu $(PARITY_VENV)/bin/pytest --numprocesses=$(WORKERS) --dist=loadfile tests/interop tests/parity
PYTEST_TPU := JAX_PLATFORMS=cpu $(TPU_VENV)/bin/pytest tests/tpu

test: $(VENV)/installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(PYTEST_SUITE) -m 'not (slow or $(ELSEWHERE))'

slow: $(VENV)/installed-test $(PARITY_VENV)/installed $(TPU_VENV)/installed
	$(PYTEST_SUITE) -m 'slow and not ($(ELSEWHERE))'
	$(PYTEST_PARITY) -m 'parity and slow'
	$(PYTEST_TPU) -m 'tpu and slow'

# Trains the pages' models in runs/walkthrough; PAGES=03-attention-by-hand.md makes one page.
walkthrough: $(VENV)/installed-test
	JAX_PLATFORMS=cpu $(BIN)/python -m tests.docs.walkthrough $(PAGES)

# `make test` compares the pages that need no training.
walk-check: $(VENV)/installed-test
	JAX_PLATFORMS=cpu $(BIN)/pytest -m walkthrough tests/docs

# Not in parallel, which would disturb the timings.
browser: $(VENV)/installed-test
	JAX_PLATFORMS=cpu $(BIN)/pytest -m browser tests/explain

faults: $(VENV)/installed-test
	$(BIN)/python -m tests.faults

parity: $(PARITY_VENV)/installed
	$(PYTEST_PARITY) -m 'parity and not slow'

tpu-check: $(TPU_VENV)/installed
	$(PYTEST_TPU) -m 'tpu and not slow'

# Needs a GPU; without one, each test says so.
gpu-check: $(GPU_VENV)/installed
	TEST_PLATFORMS= $(GPU_VENV)/bin/pytest -m gpu tests/gpu

# Kept: while a program stays the same, the compiler is not asked again.
PLAN := experiments/results/plan
PLAN_ON := v5e-8,v6e-8,v4-8,v5p-8
GROWTH_ON := v5e-8,v5e-16,v5e-32,v5e-64,v5e-128,v5e-256
switches = --$(1).model.dtype=bfloat16 --$(1).model.attention_kernel=fused --$(1).training.logits_dtype=bfloat16
FACTS := --programs=largest --facts=$(PLAN)/facts.json
t2t_plan = JAX_PLATFORMS=cpu $(TPU_VENV)/bin/t2t-jax plan --config=$(1) $(call switches,config) $(FACTS)
ONE_BILLION := $(foreach key,d_model=2048 d_ff=8192 d_k=128 d_v=128 num_encoder_layers=8 \
  num_decoder_layers=8,--config.model.$(key))

# table3, one row per chip; base on 8 to 256 chips; a billion parameters on 8.
plan: $(TPU_VENV)/installed
	JAX_PLATFORMS=cpu $(TPU_VENV)/bin/python -m experiments.sweep table3 --base=configs/base.py \
	  $(call switches,base) --seeds=3 --plan=$(PLAN_ON) --one_row_per_chip $(FACTS) > $(TPU_VENV)/plan.txt
	mv $(TPU_VENV)/plan.txt $(PLAN)/table3.txt
	$(call t2t_plan,configs/base.py) --topologies=$(GROWTH_ON) --output=$(PLAN)/base_v5e.png > $(TPU_VENV)/plan.txt
	mv $(TPU_VENV)/plan.txt $(PLAN)/base_v5e.txt
	$(call t2t_plan,configs/big.py) $(ONE_BILLION) --topology=v5e-8 --layouts=auto > $(TPU_VENV)/plan.txt
	mv $(TPU_VENV)/plan.txt $(PLAN)/one_billion_v5e.txt
	cat $(PLAN)/*.txt

# With the package's own dependencies, before those of the tests are installed.
twenty-steps: $(VENV)/installed
	rm -rf $(VENV)/runs
	$(BIN)/python -m experiments.sweep quickstart --base=configs/quickstart.py --rows=base,one_head \
	  --base.training.steps=20 --base.training.warmup_steps=10 \
	  --base.data.num_buckets=1 --base.decoding.max_extra_tokens=5 --parallel=2 \
	  --base.data.cache=$(VENV)/runs/cache --workdir=$(VENV)/runs

# Under a minute per package; pytest fails if one of these is gone.
SMOKE := data/batches/test_feed.py data/corpora/test_tfds.py data/prepare/test_workers.py \
  data/vocabulary model/test_attention.py test_devices.py training/test_checkpoint.py \
  training/test_step.py test_compilation.py decoding/test_greedy.py \
  evaluation/test_bleu.py cli/test_generate.py experiments/report/test_figures.py \
  experiments/launchers/test_slurm.py test_installation.py \
  experiments/launchers/test_ray.py::test_who_fails_has_failed_and_who_is_stopped_saves_and_goes_on

smoke: twenty-steps $(VENV)/installed-test
	$(BIN)/pyright --pythonpath $(BIN)/python
	JAX_PLATFORMS=cpu $(BIN)/pytest --numprocesses=$(WORKERS) $(SMOKE:%=tests/%)

format: $(VENV)/installed-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

constraints:
	$(PYTHON) -m venv --clear .venv-uv
	.venv-uv/bin/python -m pip install --quiet uv
	echo '$(TORCH)' | .venv-uv/bin/uv pip compile --quiet --universal --upgrade --all-extras \
	  --python-version $(OLDEST_PYTHON) --constraint - --no-annotate \
	  --custom-compile-command 'make constraints' --output-file constraints.txt pyproject.toml
