# `make` alone lists the targets. Everything runs in $(VENV), which is built when pyproject.toml or constraints.txt change.

VENV ?= .venv
PYTHON ?= python3
DEMO_STEPS ?= 200
MARKS ?= not slow and not long
BIN := $(abspath $(VENV))/bin
INSTALLED := $(VENV)/.installed
SOURCES := generator runtime templates tests golden
COMPILERS := .compilers/.installed
CLASSES := .classes/.installed
HARNESS := .harness/.installed
RAY := .ray/.installed
PARITY := .parity/.installed
SERVE := .serve/.installed
BUCKET := .bucket/.installed
DOCS := .docs/.installed
REFERENCE = PYTHONPATH=tests/tools:generator:runtime $(BIN)/python -m docs.reference
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# A package is compiled when it is first imported, not all 17,000 files of all of them: so that must be kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv compilers demo docs reference test test-slow test-all test-apart golden table family fmt lint
.SECONDEXPANSION:

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | awk -F'|' '{printf "make %-14s%s\n", $$1, $$2}'

venv: $(INSTALLED)  ## build the virtual environment

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[test]'
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

# Apart from the environment: it is of a site, and brings its own theme.
$(DOCS): tests/tools/docs/requirements.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet -r $<
	touch $@

docs: $(DOCS) $(INSTALLED)  ## build the site, strictly, into build/site; look at what pages draw, where there is a Chromium
	NO_MKDOCS_2_WARNING=1 $(dir $(DOCS))bin/mkdocs build --quiet
	PYTHONPATH=tests:tests/tools:generator:runtime $(BIN)/python -m docs.drawings

test: $(INSTALLED)  ## run the tests, 8 minutes on two cores at most
	$(PYTEST) -m '$(MARKS)'

test-slow: $(COMPILERS)  ## run the slow ones: compilers of GPU and TPU, whole projects, searches
	$(PYTEST) -m slow

test-all: test test-slow  ## run all tests, those too that take minutes each: an hour and a half
	REDCO_COMPILERS=$(CURDIR)/.compilers $(PYTEST) -m long

reference: $(INSTALLED)  ## rewrite the pages of docs/ that are of the code
	$(REFERENCE) --all

golden: $(INSTALLED)  ## rewrite the goldens and those pages, and read the diff; CHECK=--check: only compare
	$(BIN)/python tests/golden.py $(CHECK)
	$(REFERENCE) $(CHECK)

# Apart from the environment, and before it on the path: transformers 4.57 has Flax classes, 5 has none.
$(CLASSES): tests/tools/classes/requirements.txt $(INSTALLED)
	rm -rf $(@D)
	$(BIN)/pip install --quiet --no-deps --target $(@D) -r $<
	touch $@

# Apart from the environment, and before it on the path: botocore asks for an older python-dateutil.
$(BUCKET): tests/tools/buckets/requirements.txt $(INSTALLED)
	rm -rf $(@D)
	$(BIN)/pip install --quiet --no-deps --target $(@D) -r $<
	touch $@

# Apart from the environment: it brings what a hundred tasks need.
$(HARNESS):
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet torch==2.13.0 transformers accelerate lm-eval==0.4.13
	touch $@

# Apart from the environment, and before it on the path: 77 MiB that one launcher needs.
$(RAY): $(INSTALLED)
	rm -rf $(@D)
	$(BIN)/pip install --quiet --target $(@D) 'ray[train]==2.60.0' --constraint constraints.txt
	rm -rf $(@D)/numpy* $(@D)/bin
	touch $@

# Apart from the environment: llama.cpp is compiled, which takes two cores six minutes.
$(SERVE): tests/tools/serve/requirements.txt
	$(PYTHON) -m venv --clear $(@D)
	CMAKE_BUILD_PARALLEL_LEVEL=$${CMAKE_BUILD_PARALLEL_LEVEL:-2} nice $(@D)/bin/pip install --quiet --no-binary llama-cpp-python -r $<
	touch $@

# What needs more than this environment has: NAME is a folder of tests/tools.
NEEDS_classes := $(CLASSES) $(COMPILERS)
NEEDS_harness := $(HARNESS)
NEEDS_ray := $(RAY)
NEEDS_buckets := $(BUCKET)
NEEDS_serve := $(SERVE)

test-apart: $(INSTALLED) $$(NEEDS_$$(NAME))  ## run tests that CI does not: NAME=buckets, classes, cluster, harness, ray or serve
	HARNESS=$(abspath $(dir $(HARNESS)))/bin RAY=$(abspath $(dir $(RAY))) SERVE=$(abspath $(dir $(SERVE)))/bin \
	    $(BIN)/python -m pytest tests/tools/$(NAME)

# Apart from the environment: TRL and PEFT's own versions are theirs to choose.
$(PARITY): tests/tools/parity/requirements.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet -r $<
	touch $@

# NAME -> what makes the table, where that is not tests/tools/NAME/table.py; what it needs.
RUN_collectives := -m tables.collectives
RUN_perf := -m tables.performance
RUN_products := -m tables.products
RUN_estimates := -m tables.estimates
RUN_published := -m tables.published
RUN_large := -m tables.large
RUN_rollouts := -m tables.rollouts
RUN_starts := -m tables.starts
RUN_printed := -m tables.printed
RUN_table1 := -m tables.table1
RUN_recipes := -m recipes.measure
RUN_kills := -m survival.kills
RUN_kills-bucket := -m survival.kills --bucket
RUN_faults := -m survival.faults
RUN_faults-bucket := -m survival.faults --bucket
RUN_elastic := -m survival.elastic
RUN_merges := tests/tools/merges/replay.py table
RUN_bonsai := -m classes.bonsai_table
NEEDS_collectives := $(COMPILERS)
NEEDS_perf := $(COMPILERS)
NEEDS_products := $(COMPILERS)
NEEDS_estimates := $(COMPILERS)
NEEDS_large := $(COMPILERS)
NEEDS_starts := $(COMPILERS)
NEEDS_printed := $(COMPILERS)
NEEDS_table1 := $(COMPILERS)
NEEDS_kills-bucket := $(BUCKET)
NEEDS_faults-bucket := $(BUCKET)
NEEDS_parity := $(PARITY)
NEEDS_bonsai := $(CLASSES) $(COMPILERS)

table: $(INSTALLED) $$(NEEDS_$$(NAME))  ## rewrite a table: NAME=perf, parity, recipes ...; tests/tools/README.md has them, and their ROWS
	REDCO_COMPILERS=$(CURDIR)/.compilers PYTHONPATH=tests/tools:tests:generator:runtime \
	    $(BIN)/python $(or $(RUN_$(NAME)),tests/tools/$(NAME)/table.py) $(ROWS)

family: $(INSTALLED)  ## write a family of models from a neighbour, or name the nearest: NAME=olmo2 [LIKE=llama] HF=Olmo2Config
	@PYTHONPATH=tests/tools:tests:generator:runtime $(BIN)/python -m family.write '$(NAME)' '$(LIKE)' '$(HF)'

fmt: $(INSTALLED)  ## format the code
	$(BIN)/ruff check --cache-dir .ruff_cache --fix --quiet $(SOURCES)
	$(BIN)/black --quiet $(SOURCES)

lint: $(INSTALLED)  ## check the code, its floors and its types; change nothing
	$(BIN)/ruff check --cache-dir .ruff_cache $(SOURCES)
	$(BIN)/black --check --quiet $(SOURCES)
	PYTHONPATH=runtime $(BIN)/lint-imports
	$(BIN)/mypy
