# Every target does its own set-up: on a fresh machine with Python 3.11 or newer and make,
# `make demo` or `make test` is all there is to type.

# The first interpreter that is new enough; another one: make install PYTHON=/path/to/python
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(CANDIDATES); do "$$p" -c '$(NEW_ENOUGH)' 2>/dev/null && { echo "$$p"; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
# What is in it: the package with what it needs itself, and the package with all that this file needs.
PACKAGE := $(VENV)/.package
STAMP := $(VENV)/.installed
# The oldest versions of everything have an environment of their own, and so have the tools that make packages.
OLDEST := .venv-min
TOOLS := build/tools

# Tests run in WORKERS processes with THREADS threads of linear algebra each.
WORKERS ?= 2
THREADS ?= 1
# Bytecode is kept, whatever the shell says: pytest rewrites every test anew without it, in every worker.
SETTINGS := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=$(THREADS) OPENBLAS_NUM_THREADS=$(THREADS)
PYTEST := $(SETTINGS) $(BIN)/python -m pytest -q
# A worker that has nothing left takes tests from the others.
SPREAD := -n $(WORKERS) --dist worksteal
# More arguments for pytest or for the experiments, for instance: make test ARGS="-m slow", make reproduce ARGS=--plan
ARGS ?=
# More arguments for the benchmark at full size, for instance: make bench-scale SCALE="--documents 20000"
SCALE ?=
# More arguments for the campaigns, for instance: make fuzz FUZZ="--minutes 20 --seed 7", make compare FUZZ="--cases 9999"
FUZZ ?=

.DEFAULT_GOAL := help
.PHONY: help install demo test test-min lint format fuzz compare bench bench-scale reproduce docs docs-check pictures dist clean
# The targets use their cores themselves, and two installations into one environment would meet.
.NOTPARALLEL:

help: ## show this list
	@echo "dyadlearn: what make can do"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# $(call venv,FOLDER): a virtual environment in the folder, where there is none.
define venv
	@if [ -z "$(PYTHON)" ]; then \
	  echo "dyadlearn needs Python 3.11 or newer, and none of these is: $(CANDIDATES)." >&2; \
	  echo "Install one, or name it: make $(or $(MAKECMDGOALS),install) PYTHON=/path/to/python" >&2; exit 1; fi
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' || { \
	  echo "dyadlearn needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" --version 2>&1)." >&2; exit 1; }
	@test -x $(1)/bin/pip || "$(PYTHON)" -m venv $(1) || { rm -rf $(1); \
	  echo "Could not make a virtual environment (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
endef
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

# CITATION.cff has the version, which an installation stores.
$(PACKAGE): pyproject.toml CITATION.cff
	$(call venv,$(VENV))
	@echo "Installing dyadlearn and what it needs into $(VENV) (half a minute the first time) ..."
	@# What is imported is compiled then; compiling all would take longer than fetching it.
	@$(BIN)/python $(PIP_INSTALL) --no-compile --editable .
	@touch $@

# Adds to what is there; whoever has the tools has the package too.
$(STAMP): pyproject.toml CITATION.cff
	$(call venv,$(VENV))
	@echo "Installing dyadlearn and its tools into $(VENV) (a minute or two the first time) ..."
	@# What is never imported need not be compiled.
	@$(BIN)/python $(PIP_INSTALL) --no-compile --editable '.[dev]'
	@touch $(PACKAGE) $@

$(TOOLS)/.installed: Makefile
	$(call venv,$(TOOLS))
	@echo "Installing the tools that make and check packages into $(TOOLS) ..."
	@$(TOOLS)/bin/python $(PIP_INSTALL) build cffconvert py-rattler-build twine uv
	@touch $@

# The interpreter is the oldest one too; uv looks for it and fetches it where it is missing.
$(OLDEST)/.installed: pyproject.toml tests/oldest.txt $(TOOLS)/.installed
	@echo "Installing dyadlearn with the oldest versions of everything into $(OLDEST) (a minute or two) ..."
	@$(TOOLS)/bin/uv venv --quiet --clear --python 3.11 $(OLDEST)
	@$(TOOLS)/bin/uv pip install --quiet --python $(OLDEST) --resolution lowest-direct --constraint tests/oldest.txt \
	  --editable '.[test]'
	@touch $@

install: $(STAMP) ## make .venv with the package, its test tools and the dyadlearn command

demo: $(PACKAGE) ## fit the three models on the embedded data and show what they predict
	@PYTHONDONTWRITEBYTECODE= $(BIN)/dyadlearn demo --force

test: $(STAMP) ## run the tests and the examples in the docstrings
	@# scikit-learn checks other array libraries only where scipy was asked to accept them.
	SCIPY_ARRAY_API=1 $(PYTEST) -k array_api_input tests/models/test_models_sklearn.py tests/selection/test_search.py
	$(PYTEST) $(SPREAD) $(ARGS)

test-min: $(OLDEST)/.installed ## run the tests with the oldest versions of everything that pyproject.toml allows
	@# scikit-learn 1.6 cannot import its own checks where array-api-compat is installed and scipy was not asked.
	SCIPY_ARRAY_API=1 $(SETTINGS) $(OLDEST)/bin/python -m pytest -q $(SPREAD) $(ARGS)

lint: $(STAMP) ## check style, types and floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## put the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(STAMP) ## try random cases and hostile files for three minutes; longer: make fuzz FUZZ="--minutes 20"
	$(BIN)/python fuzz/run.py $(FUZZ)

compare: $(STAMP) ## compare 2,000 random cases with the version of fuzz/baseline.txt; more: make compare FUZZ="--cases 10000"
	$(BIN)/python fuzz/compare.py $(FUZZ)

bench: $(STAMP) ## measure importing, fitting, hold-out, selection and missing labels against targets
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/holdout.py
	$(BIN)/python benchmarks/landscape.py
	$(BIN)/python benchmarks/intercept.py
	$(BIN)/python benchmarks/pair_kernels.py
	$(BIN)/python benchmarks/permutation.py
	$(BIN)/python benchmarks/intervals.py
	$(BIN)/python benchmarks/learning.py
	$(BIN)/python benchmarks/incomplete.py
	$(BIN)/python benchmarks/few_labels.py
	$(BIN)/python benchmarks/budget.py
	$(BIN)/python benchmarks/online.py
	$(BIN)/python benchmarks/recommending.py --users 20000
	$(BIN)/python benchmarks/landmarks.py

bench-scale: $(STAMP) ## learn 380,000 documents of 833,482 terms and 12,633 labels from disk, in 8 GB
	$(BIN)/python benchmarks/scale.py $(SCALE)

reproduce: $(STAMP) ## run the paper's experiments, with a plan first; quicker: make reproduce ARGS=--quick
	@$(BIN)/python -c 'import matplotlib' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[plots]'
	@$(BIN)/python experiments/reproduce.py $(ARGS)

docs: $(STAMP) ## build the documentation in docs/_build/html
	$(BIN)/sphinx-build --fail-on-warning --keep-going -q docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

docs-check: docs ## build the documentation and look through it in a browser (needs chromium)
	$(BIN)/python docs/check_site.py docs/_build/html

pictures: $(STAMP) ## draw the pictures of the front page and of the gallery anew
	$(BIN)/python docs/pictures.py

dist: $(TOOLS)/.installed ## build the packages in dist/, check them, and try the wheel with the newest and the oldest dependencies
	@rm -rf dist
	$(TOOLS)/bin/python -m build --quiet
	$(TOOLS)/bin/twine check --strict dist/*
	$(TOOLS)/bin/cffconvert --validate --infile CITATION.cff
	$(TOOLS)/bin/python scripts/check_packages.py

clean: ## remove everything that make made, .venv too
	rm -rf $(VENV) $(OLDEST) build dist docs/_build docs/generated docs/gallery docs/sg_execution_times.rst
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks fuzz examples experiments docs -name __pycache__ -type d -prune -exec rm -rf {} +
