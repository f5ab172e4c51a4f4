# Each target makes .venv and installs what it needs; nothing but Python >= 3.10 is expected of the machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test slow gpu lowest check format docs dist clean

demo: $(VENV)/.plots  ## merge digits classifiers, print the scores, save demo.png
	$(BIN)/python -m benchmarks.demo

test: $(VENV)/.dev  ## every test but the slow ones, docstrings, README and pages of docs/ included
	$(BIN)/python -m pytest -q -n 2 --doctest-modules --doctest-glob="*.md" $(ARGS)

slow: $(VENV)/.dev  ## the tests that take minutes
	$(BIN)/python -m pytest -q -m slow --timeout 0 tests

gpu: $(VENV)/.dev  ## the tests for a machine with a GPU
	$(BIN)/python -m pytest -q -m gpu tests

lowest:  ## tests of the core with the oldest releases that pyproject.toml allows
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt \
		--editable ".[plots]" pytest pytest-xdist pytest-timeout hypothesis "pandas<2.2"
	build/lowest/bin/python -m pytest -q -n 2 @tests/core.txt

check: $(VENV)/.dev  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs  ## the documentation, into docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

dist: $(VENV)/.dev  ## wheel and sdist; the README runs with the wheel alone, the sdist passes its tests
	$(PIP) build twine
	rm -rf dist build
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/alone
	build/alone/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd build && alone/bin/python -W error -m doctest -o NORMALIZE_WHITESPACE -o ELLIPSIS ../README.md
	tar -xzf dist/*.tar.gz -C build
	cd build/sklearn_uhc-* && $(abspath $(BIN))/python -m pytest -q -n 2 tests

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo.png dist build docs/_build docs/auto_examples docs/generated

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.plots $(VENV)/.dev $(VENV)/.docs: $(VENV)/.%: $(VENV)/.created pyproject.toml constraints.txt
	$(PIP) --editable ".[$*]"
	touch $@
