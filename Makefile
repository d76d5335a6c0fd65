# The commands of this project. `make demo` and `make test` need nothing but Python 3.11 or newer.

PYTHON ?= python3
VENV   ?= .venv
PART   ?= 1/1
BIN    := $(VENV)/bin

# Under LC_ALL=C, Python reads no path that is not ASCII, such as that of a checkout in /home/é.
export LC_ALL := C.UTF-8

.PHONY: demo demo-mesh demo-proof demo-why test test-weights test-all explore attack check check-types check-tests check-rest bench eval prices clients docs format clean

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sagent needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "The venv module is missing. On Debian or Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Installing sagent into $(VENV). This happens once:"
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.developed: $(VENV)/.installed
	@echo "Installing what tests and checks need into $(VENV). This happens once:"
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/sagent demo

demo-why: $(VENV)/.installed
	@$(BIN)/python examples/why.py

.PHONY: demo-blame
demo-blame: $(VENV)/.installed
	@$(BIN)/python examples/blame.py

demo-mesh: $(VENV)/.developed
	@$(BIN)/python examples/mesh/failover.py

demo-proof: $(VENV)/.developed
	@$(BIN)/python examples/proof_offline.py

# A package or plugin alone: make test PART=mesh
test: $(VENV)/.developed
	@$(BIN)/python scripts/system_packages.py
	@$(BIN)/python scripts/suite.py $(filter-out 1/1,$(PART))

# Local weights need torch, which not every machine can have: without it these tests are left out, and that is said.
test-weights: $(VENV)/.developed
	@if $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,selfhosted]'; \
	then $(BIN)/python scripts/suite.py tests/plugins/local/test_selfhosted*.py; \
	else echo "torch cannot be installed here: the tests of local weights are left out"; fi

test-all: $(VENV)/.developed
	@$(BIN)/python scripts/test_all.py

# Property tests at their whole depth with examples that no run has drawn before.
explore: $(VENV)/.developed
	@DEPTH=explore $(BIN)/python scripts/suite.py -mhypothesis $(filter-out 1/1,$(PART))

# A part of it, as the second eighth: make attack PART=2/8
attack: $(VENV)/.developed
	@$(BIN)/python -m tests.attack --part $(PART)

# pyright has one thread: its two runs are side by side.
check: $(VENV)/.developed
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory --jobs=2 check-types check-tests check-rest

check-types: $(VENV)/.developed
	@$(BIN)/python -m tests.deleted pyproject.toml

check-tests: $(VENV)/.developed
	@$(BIN)/python -m tests.deleted pyright-tests.json

check-rest: $(VENV)/.developed
	@$(BIN)/python -m tests.snippets
	@$(BIN)/python scripts/reading.py
	@$(BIN)/python scripts/words.py
	@$(BIN)/python scripts/make_names.py --check
	@$(BIN)/python scripts/make_architecture.py --check
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# The documentation as a site, in site/.
docs: $(VENV)/.developed
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(VENV)/.developed
	@$(BIN)/python -m tests.benchmarks

# Small tasks with a small local model, ours beside other agents. The first time fetches 1.2 GB.
eval: $(VENV)/.developed
	@$(BIN)/python -m tests.eval

# The prices that are shipped, from genai-prices and sagent/cost/prices.toml.
prices: $(VENV)/.developed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade genai-prices
	@$(BIN)/python scripts/make_prices.py

clients: $(VENV)/.developed
	@$(BIN)/python scripts/make_clients.py
	@$(BIN)/ruff format --quiet sagent/plugins/serve/client.py

format: $(VENV)/.developed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
