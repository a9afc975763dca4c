# qclimb: `make help` lists what can be said here.
.DEFAULT_GOAL := help
BIN := .venv/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -E)

help:  ## what can be said here
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup:  ## system packages, virtual environment, builds; again at once when all is there
	@scripts/setup

demo: setup  ## a fabric of real TCP in which short flows finish first (KEEP=1 leaves it up)
	@$(SUDO) $(BIN)/qclimb lab demo $(if $(KEEP),--keep)

test: setup  ## all tests; those that need root or a missing kernel feature say so and are skipped
	@$(MAKE) -s -C hostlib test
	@$(BIN)/python -m pytest $(ARGS)

bench: setup  ## benchmarks, each a ratio to a reference in the same run
	@$(BIN)/python bench/run.py $(ARGS)

compat: setup  ## real programs' suites and loads, bare and under libqclimb.so, compared (ARGS=--help)
	@$(SUDO) $(BIN)/python -m hostlib.compat $(ARGS)

check: setup  ## formatter, linters, type checker, C warnings as errors, sanitizer builds
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(MAKE) -s -C hostlib check
	@$(MAKE) -s -C lab/sim/engine check

format: setup  ## writes Python and C the way `check` wants them
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(MAKE) -s -C hostlib format
	@$(MAKE) -s -C lab/sim/engine format

down:  ## removes what a killed demo or lab run left behind
	@$(SUDO) $(BIN)/qclimb lab down

.PHONY: help setup demo test bench compat check format down
