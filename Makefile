# Each target makes the environment it needs, in .venv; only Python 3.11 to 3.13 and make are assumed.
#   make test PYTHON=python3.12     another interpreter (after `make clean`)
#   make test PYTEST_ARGS="-k lda"  some of the tests

PYTHON ?= python3
PYTEST_ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check --no-input

# Cache bytecode even where the environment forbids it, since many tests start a Python process.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
export PYTHONDONTWRITEBYTECODE :=

# JAX calls LAPACK from several threads at once. Idle threads of OpenBLAS spin, which makes everything
# several times slower if another process uses a core.
test test-all test-scale test-cpus mutation docs: export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.NOTPARALLEL: # the targets share one environment
.PHONY: help demo test test-all test-scale test-cpus lint types docs bench mutation wheel clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 11

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
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per extra: .venv/.test is newer than pyproject.toml if genclf[test] is installed and current.
$(VENV)/.cli $(VENV)/.test $(VENV)/.docs $(VENV)/.bench $(VENV)/.scale: $(VENV)/.%: $(VENV)/.made pyproject.toml
	@echo "installing genclf[$*] into $(VENV)"
	@$(PIP) install --no-compile --editable '.[$*]'
	@touch $@

$(VENV)/.made:
	@command -v "$(PYTHON)" >/dev/null || \
	    { echo "genclf: no '$(PYTHON)' here; install Python 3.11, 3.12 or 3.13, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	    { echo "genclf: needs Python 3.11, 3.12 or 3.13, and '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1); name another, as in: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@
