PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all torture check bench docs clean

# One environment for all of them; a stamp file says which extras stand in it.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.core

$(VENV)/.all: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,embed,check]'
	@touch $@ $(VENV)/.test $(VENV)/.core

demo: $(VENV)/.core            ## the whole pipeline on the bundled corpus
	$(BIN)/cuvee run examples/demo.yaml

test: $(VENV)/.test            ## every test that needs no torch
	$(BIN)/python -m pytest -m "not torture"

test-all: $(VENV)/.all         ## the tests of the extras too
	$(BIN)/python -m pytest -m "not torture"

torture: $(VENV)/.test         ## the full kill campaign
	$(BIN)/python -m pytest -m torture tests/end_to_end

check: $(VENV)/.test           ## style
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[check]'
	$(BIN)/ruff check src tests benchmarks examples

# Side by side with other tools (their environments are made on the way): benchmarks/dedup.py --full
BENCHES := kernels_text kernels_ngrams dedup_acceptance dedup_scale decontaminate surrogates topic_band data_constrained budgets solve validation stream epochs

bench: $(VENV)/.test           ## figures of benchmarks/RESULTS.md that need no other tool
	for name in $(BENCHES); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

docs: $(VENV)/.test            ## run every snippet in docs/
	$(BIN)/python -m pytest tests/test_docs.py

clean:
	rm -rf $(VENV) runs .pytest_cache .hypothesis
