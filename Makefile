# `make setup` does all the set-up; `make demo` and `make test` begin with it. The work is done by
# the scripts in scripts/, which can be run by themselves.

TIER ?=
ARGS ?=

.PHONY: help setup demo test clean

help:
	@echo 'make setup           a virtual environment in .venv, and a CRIU that works here'
	@echo 'make demo            the same, and see a job outgrow its memory and lose nothing'
	@echo 'make test            the same, and lint and all tests'
	@echo 'make test TIER=unit  one of lint, unit, contract, host, zoo, vm (ARGS=… goes to pytest)'
	@echo 'make clean           remove all that these made here'

setup:
	@scripts/setup.sh host

demo: setup
	@scripts/as_root.sh .venv/bin/outgrow demo $(ARGS)

test:
	@scripts/test.sh "$(TIER)" $(ARGS)

clean:
	rm -rf .venv dist build outgrow-demo.svg
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples scripts -name __pycache__ -type d -prune -exec rm -rf {} +
