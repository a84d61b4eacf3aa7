# Everything runs in .venv, which is created on first use and updated when pyproject.toml or
# constraints.txt changes.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=

.PHONY: help demo test lint bench docs build clean
.DEFAULT_GOAL := help

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*##/\1:/p' $(MAKEFILE_LIST) | awk -F: '{ printf "  make %-7s%s\n", $$1, $$2 }'

demo: .venv/.stamp-demo  ## train, test and inspect Bayesian TAML and a baseline on embedded images, about three minutes
	$(BIN)/anyshot demo $(ARGS)

# Most tests keep one core busy, so the tests run in two processes with one thread each.
test: .venv/.stamp-dev  ## run the tests and measure coverage, under ten minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --cov $(ARGS)

lint: .venv/.stamp-dev  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.stamp-bench  ## compare the engine with autograd and other libraries
	$(BIN)/anyshot bench $(ARGS)

docs: .venv/.stamp-docs  ## build the API reference from the docstrings, into build/reference
	$(BIN)/python docs/reference/build.py

# The wheel is installed into a new environment that has no source tree in its path. Its dependencies
# come from .venv by a .pth file, so that torch is not downloaded again.
build: .venv/.stamp-release  ## build sdist and wheel into dist, check both and install the wheel
	rm -rf dist build/wheel
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check --no-deps dist/*.whl
	$(call packages,$(BIN)/python) > "$$($(call packages,build/wheel/bin/python))/dependencies.pth"
	cd build && wheel/bin/anyshot --version
	cd build && wheel/bin/python -c 'import anyshot; anyshot.load("glyphs"); anyshot.open_images("digits")'

clean:  ## remove .venv and the files of tools
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov build dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 10) and "anyshot needs Python 3.10 or later, found %d.%d; try: make PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv .venv

packages = $(1) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

# The pins are for Python 3.11 and later; Python 3.10 gets the newest releases that support it.
install = $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(1)]' \
	$$($(BIN)/python -c 'import sys; print("--constraint constraints.txt" if sys.version_info >= (3, 11) else "")')

.venv/.stamp-demo: EXTRAS = fast,sklearn
.venv/.stamp-dev: EXTRAS = dev
.venv/.stamp-bench: EXTRAS = fast,sklearn,bench
.venv/.stamp-docs: EXTRAS = docs
.venv/.stamp-release: EXTRAS = fast,release
.venv/.stamp-%: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing anyshot and its dependencies into .venv; the first time takes a few minutes."
	$(call install,$(EXTRAS))
	@touch $@
