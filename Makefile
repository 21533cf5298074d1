# Every target sets up what it needs on a machine that has Python 3.11 or newer; a second call finds it done.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test others other engines peers selftest golden fuzz lint types wheel clean chromium

help:
	@echo 'make demo    diagnose the shipped pairs: verdicts here, reports in demo/'
	@echo 'make test    run the tests'
	@echo 'make others  the same without a browser on every newer Python that is installed'
	@echo 'make lint    ruff (rules and format) and the import contracts'
	@echo 'make types   mypy, strict'
	@echo 'make engines the tests that start real engines'
	@echo 'make peers   the tests that install another tool and compare its numbers with ours'
	@echo 'make selftest plant causes in a small engine on torch and look for them; minutes'
	@echo 'make golden  write what the small files read as anew (tests/golden)'
	@echo 'make fuzz    feed every reader random bytes, SECONDS=60 each'
	@echo 'make wheel   build dist/*.tar.gz and dist/*.whl'
	@echo 'make clean   remove everything that these targets made'

demo: $(VENV)/.base
	$(BIN)/profiler demo --out demo

test: $(VENV)/.dev chromium
	$(BIN)/python -m pytest -n 2 --dist loadfile

# Python 3.12 and newer, from the system or pyenv: readers, collectors and every command. What does not depend on the
# interpreter, and the wheel, are left to the main one.
others:
	@for python in $$(ls -d $$HOME/.pyenv/versions/3.1[2-9]*/bin/python /usr/bin/python3.1[2-9] 2>/dev/null); do \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); echo "Python $$version"; \
	  $(MAKE) --no-print-directory other PYTHON=$$python VENV=.venv-$$version || exit 1; \
	done

other: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 tests/store tests/collectors tests/cli tests/test_examples.py

engines: $(VENV)/.dev
	@# Status 5: no test carries the marker.
	$(BIN)/python -m pytest -m engines || [ $$? -eq 5 ]

peers: $(VENV)/.dev
	$(BIN)/python -m pytest -m peers

# What pip is asked for: torch's own index has a build for the CPU, gigabytes smaller than the one for CUDA.
TORCH ?= --index-url https://download.pytorch.org/whl/cpu 'torch>=2.4'
selftest: $(VENV)/.dev
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install --quiet --retries 1 $(TORCH) || \
	  echo "torch could not be installed: the self-test will be skipped (make selftest TORCH=torch asks pip's own index)"
	$(BIN)/python -m pytest -m selftest

golden: $(VENV)/.dev
	$(BIN)/python -m tests.golden_dump

# Coverage-guided; a crash leaves its input in fuzz/, and a second call goes on from what the first one found.
SECONDS ?= 60
fuzz: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group fuzz
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

wheel: $(VENV)/.dev
	rm -rf build dist
	@$(BIN)/python -m build >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@ls -l dist

clean:
	rm -rf $(VENV) .venv-* build dist demo fuzz *.egg-info collectors/*.so collectors/*/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Headless Chromium for the tests that open the report. Without it they are skipped, and pytest says so.
chromium:
	@if command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium) \
	    >/dev/null || echo 'chromium could not be installed: the browser tests will be skipped'; \
	else echo 'chromium is not installed (apt-get install chromium, as root): the browser tests will be skipped'; fi

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11: make PYTHON=python3.11 …"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo 'Python has no venv module: apt-get install python3-venv'; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

# Where there is a C compiler, the quick trace scanner is built too.
$(VENV)/.base: $(VENV)/.python pyproject.toml $(wildcard collectors/*.[ch] collectors/*/*.c)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base pyproject.toml
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@
