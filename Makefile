# `make` alone lists the targets. Everything runs in $(VENV), which is built when pyproject.toml changes.

VENV ?= .venv
PYTHON ?= python3
DEMO_STEPS ?= 200
BIN := $(abspath $(VENV))/bin
INSTALLED := $(VENV)/.installed
SOURCES := generator runtime templates tests golden
COMPILERS := .compilers/.installed
CLASSES := .classes/.installed
HARNESS := .harness/.installed
PARITY := .parity/.installed
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help venv compilers demo test test-slow test-all test-classes test-cluster test-harness golden golden-check collectives perf table1 estimates large recipes kills faults bench table fmt lint

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile | awk -F': ' '{printf "make %-14s%s\n", $$1, $$2}'

venv: $(INSTALLED)  ## build the virtual environment

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

compilers: $(COMPILERS)  ## install the compilers for GPU and TPU, which need no device

# Apart from the environment: with them in it, JAX would look for devices that are not here.
$(COMPILERS): $(INSTALLED)
	rm -rf $(@D)
	version=$$($(BIN)/python -c 'import jax; print(jax.__version__)') && \
	$(BIN)/pip install --quiet --no-deps --target $(@D) libtpu==0.0.51 redco==0.4.23 \
	    nvidia-cuda-nvcc-cu12==12.8.93 jax-cuda12-plugin==$$version jax-cuda12-pjrt==$$version
	touch $@

demo: $(INSTALLED)  ## create a project, train it on 4 virtual devices, predict from its checkpoint
	DEMO_STEPS=$(DEMO_STEPS) tests/demo.sh $(BIN)

test: $(INSTALLED)  ## run the tests, 8 minutes on two cores at most
	$(PYTEST) -m 'not slow and not long'

test-slow: $(COMPILERS)  ## run the slow ones: compilers of GPU and TPU, whole projects, searches
	$(PYTEST) -m slow

test-all: test test-slow  ## run all tests, those too that take minutes each: an hour and a half
	REDCO_COMPILERS=$(CURDIR)/.compilers $(PYTEST) -m long

golden: $(INSTALLED)  ## rewrite the goldens: read the diff before you commit it
	$(BIN)/python tests/golden.py

golden-check: $(INSTALLED)  ## compare the goldens with what is generated now
	$(BIN)/python tests/golden.py --check

collectives: $(COMPILERS)  ## rewrite the table of what compiled programs send: half an hour
	PYTHONPATH=tests $(BIN)/python -m compiled.report

recipes: $(INSTALLED)  ## train each recipe with three seeds, rewrite docs/recipes.md: an hour; RECIPES="lm sft": those alone
	PYTHONPATH=tests $(BIN)/python -m recipes.measure $(RECIPES)

kills: $(INSTALLED)  ## kill a run 50 times, and compare its end with an undisturbed one: twenty minutes
	PYTHONPATH=tests:generator:runtime $(BIN)/python -m survival.kills

faults: $(INSTALLED)  ## rewrite the table of what a run does under each fault: ten minutes
	PYTHONPATH=tests:generator:runtime $(BIN)/python -m survival.faults

perf: $(COMPILERS)  ## rewrite the table of how near compiled steps are to the machine's limit: ten minutes
	PYTHONPATH=tests $(BIN)/python -m compiled.performance

table1: $(COMPILERS)  ## rewrite the table of the Redco paper's models on its machines, as redco fit compiles them: five minutes
	REDCO_COMPILERS=$(CURDIR)/.compilers PYTHONPATH=tests $(BIN)/python -m compiled.table1

estimates: $(COMPILERS)  ## rewrite the table of estimated and compiled steps: half an hour; those that it has are not compiled again
	REDCO_COMPILERS=$(CURDIR)/.compilers PYTHONPATH=tests $(BIN)/python -m compiled.estimates

large: $(COMPILERS)  ## rewrite the table of the largest models, searched and compiled: twenty minutes
	REDCO_COMPILERS=$(CURDIR)/.compilers PYTHONPATH=tests $(BIN)/python -m compiled.large

# Apart from the environment, and before it on the path: transformers 4.57 has Flax classes, 5 has none.
$(CLASSES): tests/classes/requirements.txt $(INSTALLED)
	rm -rf $(@D)
	$(BIN)/pip install --quiet --no-deps --target $(@D) -r $<
	touch $@

test-classes: $(CLASSES) $(COMPILERS)  ## try classes of other people's packages, rewrite their table; BONSAI=folder: bonsai's too
	$(BIN)/python -m pytest tests/classes
	$(if $(BONSAI),PYTHONPATH=tests $(BIN)/python -m classes.bonsai_table $(BONSAI))

# Apart from the environment: it brings what a hundred tasks need.
$(HARNESS):
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet torch==2.13.0 transformers accelerate lm-eval==0.4.13
	touch $@

test-harness: $(INSTALLED) $(HARNESS)  ## evaluate an export by lm-evaluation-harness, on a task of two lines
	HARNESS=$(abspath $(dir $(HARNESS)))/bin $(BIN)/python -m pytest tests/harness

test-cluster: $(INSTALLED)  ## run jobs on a SLURM of two nodes in network namespaces: needs root, and says which packages
	$(BIN)/python -m pytest tests/cluster

bench: $(INSTALLED)  ## compare a project with Redco 0.4.23: step time, compile time, memory; eight minutes of two quiet cores
	mkdir -p .benchmarks && rm -rf .benchmarks/my-project
	$(BIN)/redco-new my-project --model gpt-j --shards 4 --output .benchmarks
	$(BIN)/python tests/benchmarks/redco/run.py --project .benchmarks/my-project \
	    --rounds 5 --L 4 --steps 6

# Apart from the environment: TRL and PEFT's own versions are theirs to choose.
$(PARITY): tests/benchmarks/parity/requirements.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet -r $<
	touch $@

table: $(INSTALLED) $(if $(filter parity,$(NAME)),$(PARITY))  ## rewrite a table; NAME=parity: forty steps of each recipe beside Trainer, TRL or PEFT, twenty minutes
	PYTHONPATH=tests $(BIN)/python tests/benchmarks/$(NAME)/table.py

fmt: $(INSTALLED)  ## format the code
	$(BIN)/ruff check --fix --quiet $(SOURCES)
	$(BIN)/black --quiet $(SOURCES)

lint: $(INSTALLED)  ## check the code, its floors and its types; change nothing
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/black --check --quiet $(SOURCES)
	PYTHONPATH=runtime $(BIN)/lint-imports
	$(BIN)/mypy
