# Everything runs in .venv, which is made on first use and again whenever pyproject.toml or constraints.txt changes.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=

.PHONY: help demo test lint bench docs clean
.DEFAULT_GOAL := help

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*##/\1:/p' $(MAKEFILE_LIST) | awk -F: '{ printf "  make %-7s%s\n", $$1, $$2 }'

demo: .venv/.stamp-demo  ## train, test and look inside Bayesian TAML and a baseline on embedded images, some three minutes
	$(BIN)/anyshot demo $(ARGS)

# Most tests keep one core busy, so two processes with one thread each; costs a sixth more processor time in all.
test: .venv/.stamp-dev  ## run the tests and measure coverage, under ten minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --cov $(ARGS)

lint: .venv/.stamp-dev  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.stamp-bench  ## measure the engine against autograd and other libraries
	$(BIN)/anyshot bench $(ARGS)

docs: .venv/.stamp-docs  ## build the API reference from the docstrings, into build/reference
	$(BIN)/python docs/reference/build.py

clean:  ## remove .venv and what tools left behind
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov build dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 10) and "anyshot needs Python 3.10 or later, found %d.%d; try: make PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv .venv

# The pins are for Python 3.11 and later; 3.10 takes the newest releases that still support it.
install = $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(1)]' \
	$$($(BIN)/python -c 'import sys; print("--constraint constraints.txt" if sys.version_info >= (3, 11) else "")')

.venv/.stamp-demo: EXTRAS = fast,sklearn
.venv/.stamp-dev: EXTRAS = dev
.venv/.stamp-bench: EXTRAS = fast,sklearn,bench
.venv/.stamp-docs: EXTRAS = docs
.venv/.stamp-%: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing anyshot and what it needs into .venv; the first time takes a few minutes."
	$(call install,$(EXTRAS))
	@touch $@
