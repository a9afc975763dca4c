# qclimb: `make help` lists what can be said here.
.DEFAULT_GOAL := help
BIN := .venv/bin
# The tests wait more than they compute: more at once than there are processors, eight at most.
WORKERS := $(shell n=$$(nproc); echo $$((n < 4 ? 2 * n : 8)))
# Tests start Python hundreds of times: it keeps what it has compiled, even where a container's environment forbids it.
unexport PYTHONDONTWRITEBYTECODE
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -E)

help:  ## what can be said here
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup:  ## system packages, virtual environment, builds; again at once when all is there
	@scripts/setup

demo: root setup  ## a fabric of real TCP in which short flows finish first (KEEP=1 leaves it up)
	@$(SUDO) $(BIN)/qclimb lab demo $(if $(KEEP),--keep)

# Asked for before anything is built: who can't have it should not wait for compilers first.
root:
	@[ "$$(id -u)" = 0 ] || sudo -v || { echo "make demo makes network namespaces: it needs root, or sudo"; exit 2; }

test: setup  ## the tests; those that need root or a missing kernel feature say so and are skipped (SHUFFLE=1: in any order)
	@$(MAKE) -s -C hostlib test
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not system" $(if $(SHUFFLE),-p randomly) $(ARGS)

test-system: setup  ## the tests that need minutes each: whole experiments over a live fabric
	@$(BIN)/python -m pytest -m system $(ARGS)
	@$(BIN)/python -m pytest -n $(WORKERS) -m "hypothesis and not system" --hypothesis-profile=wide $(ARGS)
	@scripts/test-lowest

bench: setup  ## benchmarks, each a ratio to a reference in the same run
	@$(BIN)/python -m bench $(ARGS)

compat: setup  ## real programs' suites and loads, bare and under libqclimb.so, compared (ARGS=--help)
	@$(SUDO) $(BIN)/python -m tests.compat $(ARGS)

check: setup  ## formatter, linters, type checker, C warnings as errors, sanitizer builds
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(MAKE) -s -C hostlib check
	@$(MAKE) -s -C lab/sim/engine check

layout:  ## writes the C structs of host files anew, after a field of a policy or a record came or went
	@$(BIN)/python hostlib/core/write_layout.py

format: setup  ## writes Python and C the way `check` wants them
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(MAKE) -s -C hostlib format
	@$(MAKE) -s -C lab/sim/engine format

deb:  ## Debian packages of host, library and orchestrator, into build/deb
	@packaging/build-deb

down:  ## removes what a killed demo or lab run left behind
	@$(SUDO) $(BIN)/qclimb lab down

.PHONY: help setup root demo test test-system bench compat check layout format deb down
