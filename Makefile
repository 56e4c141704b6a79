# Needs Python 3.11 or newer and nothing else. Every target is a script in scripts/.
.PHONY: help demo test test-all lint clean
.DEFAULT_GOAL := help

help:  ## Print this list
	@echo "usage: make TARGET [PYTHON=/path/to/python3] [TORCH=torch==2.13.0]"
	@sed -n 's/^\([a-z-]*\):.*## /  \1 /p' Makefile | awk '{name = $$1; $$1 = ""; printf "  %-10s%s\n", name, $$0}'

demo:  ## Own environment, weights, then real decisions on real text, and the speed-up
	@scripts/demo

test:  ## Own environment, weights, lint, then the suite
	@scripts/test

test-all:  ## The same with the slow tests: soaks and full products of shapes
	@scripts/test --all

lint:  ## ruff and mypy --strict
	@scripts/lint

clean:  ## Remove the environments and every cache in this folder (the weights stay in yours)
	rm -rf .venv-demo .venv-test .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
