# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# memtrace beside bpftrace, heaptrack, memray and torch.profiler. `make bench QUICK=1` is short.
# tools/update-readme-table puts the last result into the README.

.PHONY: bench
bench: ## memtrace and its peers on the same job, a table
	@tools/install-deps build python bench
	@tools/make-venv bench
	@$(MAKE) --no-print-directory build/memtrace
	@tests/bench/run $(if $(QUICK),--quick) $(BENCH_ARGS)
