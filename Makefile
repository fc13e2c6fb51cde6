# Every target makes its own environment in .venv, once; nothing else on the machine is changed.

SHELL := /bin/sh
VENV  := .venv
BIN   := $(VENV)/bin
PIP   := $(BIN)/python -m pip install -qq --disable-pip-version-check
LOCK  := $(VENV)/uv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
           --custom-compile-command 'make lock'
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PIP_USER PIP_TARGET PIP_PREFIX
# Every process of a run would compile all source anew.
unexport PYTHONDONTWRITEBYTECODE

# An environment that was moved with the checkout, or whose Python is gone, is made anew.
$(shell [ "$$(cat $(VENV)/place 2>/dev/null)" = "$(CURDIR)" ] && $(BIN)/python -c '' 2>/dev/null || rm -f $(VENV)/locked)

.DEFAULT_GOAL := help
.PHONY: help demo test long property soak sim sim-many sim-large fuzz mutants e2e check lint fmt bench lock clean venv machine

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

demo: venv ## start a farm here, compile C++ and CUDA operators twice, show cold against warm
	@$(BIN)/python deploy/demo.py

test: venv ## run all tests, four at a time, long ones first (some minutes)
	@$(BIN)/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder

long: venv ## tests that take too long for every change: workers lost at each step, a network that is cut
	@$(BIN)/python -m pytest -q -m long

check: lint ## everything that reads the code: lint, types, layers, the compose file
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python deploy/check_compose.py

e2e: venv ## bring the compose file up with a real engine (as root on Debian; some minutes)
	@$(BIN)/python -m tests.e2e.compose

property: venv ## random calls on the index and on its plain model, for long (EXAMPLES=2000; some minutes)
	@PROPERTY_EXAMPLES=$(or $(EXAMPLES),2000) nice $(BIN)/python -m pytest -q -p no:xdist tests/property

soak: venv ## ten minutes of force jobs and lost leaders, at random (make soak SEED=... brings a run back)
	@$(BIN)/python -m tests.soak.soak "$(SEED)"

mutants: venv ## disable the farm's rules one at a time: which test notices? (make mutants ONLY="publish lib/job loop")
	@LAYERS="$(LAYERS)" $(BIN)/python -m tests.mutants $(ONLY)

fuzz: venv ## hostile files, commands and messages, at random; a quarter of an hour (make fuzz EXAMPLES=10000)
	@FUZZ_EXAMPLES=$(or $(EXAMPLES),2000) nice $(BIN)/python -m pytest -q -p no:xdist tests/fuzz

sim: venv ## a whole farm on virtual time, from one seed (make sim SEED=7)
	@$(BIN)/python -m tests.sim.run one $(or $(SEED),1)

sim-many: venv ## as many seeds of it (make sim-many N=200); the failing ones are named
	@$(BIN)/python -m tests.sim.run many $(or $(N),20) $(or $(SEED),1)

sim-large: venv ## 10,000 jobs of 200 operators on 1,000 workers: what a job costs the server
	@$(BIN)/python -m tests.sim.large $(JOBS)

lint: venv ## ruff: rules and format
	@$(BIN)/ruff check -q --output-format concise
	@$(BIN)/ruff format -q --check --output-format concise

fmt: venv ## ruff: mend what it can and format
	@$(BIN)/ruff check -q --fix
	@$(BIN)/ruff format -q

bench: venv ## run the benchmarks in tests/bench
	@for file in tests/bench/[a-z]*.py; do $(BIN)/python -m tests.bench.$$(basename "$$file" .py) || exit 1; done

lock: venv ## write requirements.lock and deploy/image.lock anew from pyproject.toml
	@$(BIN)/python -m venv $(VENV)/uv && $(VENV)/uv/bin/python -m pip install -qq --disable-pip-version-check uv
	@$(LOCK) --upgrade --extra dev pyproject.toml -o requirements.lock
	@$(LOCK) --upgrade --extra cuda --constraints requirements.lock pyproject.toml -o deploy/image.lock

clean: ## remove the environment and all that the tools left
	@rm -rf $(VENV) .cache build dist *.egg-info .*_cache .hypothesis
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

venv: $(VENV)/installed ## make the environment in .venv from requirements.lock

machine:
	@sh deploy/bootstrap.sh >/dev/null

$(VENV)/locked: requirements.lock | machine
	@echo "making $(VENV) (once, about half a minute)" >&2
	@rm -rf $(VENV)
	@python=$$(sh deploy/bootstrap.sh) && "$$python" -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements.lock
	@echo "$(CURDIR)" > $(VENV)/place
	@touch $@

# setuptools comes from the lock, so the editable install downloads nothing.
$(VENV)/installed: $(VENV)/locked pyproject.toml | machine
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@
