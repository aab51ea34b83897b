# GNU make and Python 3.11 or newer; everything is installed into .venv, nothing elsewhere.
# A stamp file in .venv says what has been installed, so a second `make` reinstalls nothing.

PYTHON ?= python3
WORKERS ?= 2
SACCADE_DATA ?= $(abspath $(wildcard ../shared/data))

BIN := .venv/bin
QUIET := $(shell test -t 2 || echo --quiet)  # who watches sees pip at work
PIP := $(BIN)/python -m pip --disable-pip-version-check install $(QUIET) -c constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --durations=8 --durations-min=8
NEEDS := pyproject.toml constraints.txt

ifneq ($(strip $(SACCADE_DATA)),)
export SACCADE_DATA
endif

.DELETE_ON_ERROR:
.PHONY: help setup serve demo test-env browser test test-all lint format bench picture pictures clean

help:
	@echo "make demo      set up, train a French-English translator in about two minutes, show its attention"
	@echo "make setup     only make .venv, with the saccade command in it"
	@echo "make serve     add what 'saccade explore' and 'saccade serve' need"
	@echo "make test      set up for tests; style, types, and all tests but the slow ones"
	@echo "make test-all  the slow tests too"
	@echo "make lint      style and types"
	@echo "make format    put the style right"
	@echo "make bench     measure saccade and its peers"
	@echo "make picture   draw docs/attention.svg again, from the demo's run"
	@echo "make pictures  that, and the screenshots of the explorer"
	@echo "make clean     remove .venv and what builds, tests and benchmarks left"

setup: .venv/.setup
serve: .venv/.serve
test-env: .venv/.test browser

demo: setup
	$(BIN)/saccade demo

test: lint
	$(PYTEST) -n $(WORKERS) --dist loadgroup -m "not slow"

test-all: lint
	$(PYTEST) -n $(WORKERS) --dist loadgroup

lint: test-env
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy --no-error-summary

format: test-env
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

bench: .venv/.bench test-env
	$(BIN)/python benchmarks/run.py

picture: setup
	$(BIN)/python docs/make_picture.py

pictures: test-env picture
	$(BIN)/python docs/make_pictures.py

# The explorer is tested in a real browser. Only a CI machine, as root, gets one unasked.
browser:
	@if [ "$$CI" = true ] && [ "$$(id -u)" = 0 ] && ! command -v chromium >/dev/null; then \
		echo "Installing chromium and fonts" && apt-get update --quiet=2 && \
		DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends \
			chromium fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji; \
	fi

clean:
	rm -rf .venv benchmarks/.peers build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples docs -name __pycache__ -prune -exec rm -rf {} +

.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "saccade needs Python 3.11 or newer, and '$(PYTHON)' is not:" \
		     "name one that is, such as 'make $(MAKECMDGOALS) PYTHON=python3.12'" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.setup: .venv/.made $(NEEDS)
	@echo "Installing saccade into .venv (torch is large: this takes a few minutes, once)"
	$(PIP) -e .
	@touch $@

.venv/.serve: .venv/.setup
	@echo "Installing what the explorer needs into .venv"
	$(PIP) -e '.[serve]'
	@touch $@

.venv/.test: .venv/.setup
	@echo "Installing what the tests need into .venv"
	$(PIP) -e '.[test]'
	@touch $@

.venv/.bench: .venv/.setup
	@echo "Installing the peers to compare with into .venv"
	$(PIP) -e '.[bench]'
	@touch $@
