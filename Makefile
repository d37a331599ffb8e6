# Each target makes the environment it needs, in .venv; only Python 3.11 to 3.13 and make are assumed.
#   make test PYTHON=python3.12     another interpreter (after `make clean`)
#   make test PYTEST_ARGS="-k lda"  some of the tests

PYTHON ?= python3
PYTEST_ARGS ?=
OLDEST_PYTHON ?= python3.11

VENV := .venv
LOWEST := .venv-lowest
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check --no-input

# Cache bytecode even where the environment forbids it, since many tests start a Python process.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
export PYTHONDONTWRITEBYTECODE :=

# JAX calls LAPACK from several threads at once. Idle threads of OpenBLAS spin, which makes everything
# several times slower if another process uses a core.
test test-all test-scale test-cpus test-lowest mutation docs: export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.NOTPARALLEL: # the targets share one environment
.PHONY: help demo test test-all test-scale test-cpus test-lowest lint types docs bench mutation wheel clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 13

demo: $(VENV)/.cli ## fit the models to the shipped data and print what they say
	@$(PY) -m genclf

PYTEST := -m pytest -n 2 --dist loadgroup
# Spark needs Java; without it, `make test` leaves out the tests of the engines.
SCALE := $(if $(shell command -v java),$(VENV)/.scale)
SOME := $(if $(SCALE),,-m "not scale")

test: lint types $(SCALE) ## lint, types, doctests, and tests on one model of each kind
	$(PY) $(PYTEST) --fast $(SOME) $(PYTEST_ARGS)

test-all: lint types $(SCALE) ## the same on every model, with the slow cases
	$(PY) $(PYTEST) $(SOME) $(PYTEST_ARGS)

test-scale: $(VENV)/.test $(VENV)/.scale ## only the tests of the engines (Spark, Dask, JAX processes)
	$(PY) $(PYTEST) -m scale $(PYTEST_ARGS)

# Rounding depends on the vector units that NumPy and XLA use. All three runs disable the optional ones of NumPy, which it lists
# as "found"; the second and third also limit XLA. JAX's compile cache includes the flags, so the runs can share it.
test-cpus: $(VENV)/.test ## the laws, with the rounding of x86 processors with smaller vector units
	@units=$$($(PY) -c "import numpy; print(*numpy.show_config('dicts')['SIMD Extensions'].get('found', []))"); \
	for flags in "" --xla_cpu_max_isa=AVX2 --xla_cpu_max_isa=SSE4_2; do \
	    echo "NumPy without $$units; XLA_FLAGS=$$flags"; \
	    NPY_DISABLE_CPU_FEATURES="$$units" XLA_FLAGS="$$XLA_FLAGS $$flags" \
	        $(PY) $(PYTEST) --fast tests/laws tests/course/test_hard_cases.py $(PYTEST_ARGS) || exit 1; \
	done

# One file or two for each package that genclf uses. Figures are compared with those of the newest matplotlib, not here.
OF_OLD := $(addprefix tests/,house/test_import.py house/test_readme.py select/test_label_shift.py roads/test_constrained.py \
    laws/test_story.py multivariate/test_ranking.py files/test_files.py sklearn/test_mixed_tables.py text/test_text.py \
    tables/test_compare_tables.py stream/test_host_scores.py cli/test_cli.py plot/test_plot.py)

test-lowest: $(LOWEST)/.made ## imports, the README and quick tests with the oldest versions that pyproject.toml allows
	$(LOWEST)/bin/python $(PYTEST) --fast -W default -k "not pictures and not the_figure" $(OF_OLD) $(PYTEST_ARGS)

lint: $(VENV)/.test ## ruff
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(VENV)/.test ## mypy
	$(PY) -m mypy

docs: $(VENV)/.docs ## the pages, into docs/_build/html and docs/notebooks; executed if they or the library changed
	$(PY) -m sphinx -j 2 --fail-on-warning --keep-going --nitpicky --fresh-env -b html docs docs/_build/html

bench: $(VENV)/.bench ## times relative to scikit-learn and to the machine's limits; growth; first calls
	@$(PY) -m benchmarks
	@$(PY) -m benchmarks.floors
	@$(PY) -m benchmarks.growth
	@$(PY) -m benchmarks.first_calls

mutation: $(VENV)/.test $(VENV)/.bench ## mutation testing for an hour: random changes of lines that no test notices
	@nice -n 15 $(PY) -m benchmarks.mutation --jobs 2 $(MUTATION_ARGS)

wheel: $(VENV)/.test ## the sdist, and from it the wheel, into dist
	$(PY) -m build

clean: ## remove everything made here, the environment too
	rm -rf $(VENV) $(LOWEST) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per extra: .venv/.test is newer than pyproject.toml if genclf[test] is installed and current.
$(VENV)/.cli $(VENV)/.test $(VENV)/.docs $(VENV)/.bench $(VENV)/.scale: $(VENV)/.%: $(VENV)/.made pyproject.toml
	@echo "installing genclf[$*] into $(VENV)"
	@$(PIP) install --no-compile --editable '.[$*]'
	@touch $@

$(LOWEST)/.made: pyproject.toml tests/lowest.py
	@command -v "$(OLDEST_PYTHON)" >/dev/null || \
	    { echo "genclf: no '$(OLDEST_PYTHON)' here; name Python 3.11: make OLDEST_PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(OLDEST_PYTHON)" -m venv --clear $(LOWEST)
	@echo "installing the oldest versions that pyproject.toml allows into $(LOWEST)"
	@"$(OLDEST_PYTHON)" tests/lowest.py > $(LOWEST)/requirements.txt
	@$(LOWEST)/bin/python -m pip --quiet --disable-pip-version-check --no-input install --no-compile \
	    --requirement $(LOWEST)/requirements.txt --editable .
	@touch $@

$(VENV)/.made:
	@command -v "$(PYTHON)" >/dev/null || \
	    { echo "genclf: no '$(PYTHON)' here; install Python 3.11, 3.12 or 3.13, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	    { echo "genclf: needs Python 3.11, 3.12 or 3.13, and '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1); name another, as in: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@
