# The commands of this project. `make demo` and `make test` need nothing but Python 3.11 or newer.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-all check bench format clean

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sagent needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "The venv module is missing. On Debian or Ubuntu: apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.developed: $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/sagent demo

test: $(VENV)/.developed
	@$(BIN)/python scripts/system_packages.py
	@$(BIN)/python -m pytest -n auto

test-all: $(VENV)/.developed
	@$(BIN)/python scripts/test_all.py

check: $(VENV)/.developed
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-timing 2>/dev/null || $(BIN)/lint-imports
	@$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.developed
	@$(BIN)/python -m tests.benchmarks

format: $(VENV)/.developed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
