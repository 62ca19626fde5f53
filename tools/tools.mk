# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# What a machine needs beyond this tree: packages, the Python environment; and the demo.

.PHONY: deps deps-test deps-bench venv venv-tests venv-bench demo
deps: ## install the packages that building needs
	@tools/install-deps build
deps-test: ## … and those of the tests
	@tools/install-deps build test python
deps-bench: ## … and the peers of the benchmark
	@tools/install-deps build python bench
venv: ## Python with torch under build/venv
	@tools/make-venv
venv-tests: # ... and what reads Parquet, speaks MCP, shows notebooks and renders charts
	@tools/make-venv parquet
	@tools/make-venv agents
	@tools/make-venv packages
venv-bench:
	@tools/make-venv bench

# A recursive make: the packages must be there before make looks for compilers and libraries.
demo: ## train a small job and watch it with memtrace
	@echo "demo: packages, Python environment and build first (the first run takes some minutes)"
	@tools/install-deps build python
	@tools/make-venv
	@$(MAKE) -s -j$$(nproc) --no-print-directory build/memtrace
	@tools/demo
