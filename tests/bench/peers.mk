# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# memtrace beside bpftrace, heaptrack, memray and torch.profiler. `make bench QUICK=1` is short.
# tools/update-transcripts puts the last result into docs/evidence.md.

.PHONY: bench
bench: ## memtrace and its peers on the same job, a table
	@tools/install-deps build python bench
	@tools/make-venv bench
	@$(MAKE) --no-print-directory build/memtrace build/tests/bench_traps
	@tests/bench/run $(if $(QUICK),--quick) $(BENCH_ARGS)
	@$(MAKE) --no-print-directory bench-views

.PHONY: docs-peers
docs-peers: build/memtrace ## what memtrace and its peers say of one job, and the table into docs/peers.md; installs the peers; root
	@tools/install-deps build python bench
	@tools/make-venv bench
	@tests/bench/peers
	@tools/tables put peers

.PHONY: docs-mosaic
docs-mosaic: build/memtrace ## which categories Mosaic (MT_MOSAIC) finds in memtrace's snapshot, and the table into docs/peers.md; root
	@tools/make-venv
	@tests/bench/peers --mosaic
	@tools/tables put mosaic

.PHONY: bench-views
bench-views: build/memtrace ## how fast exports are (docs/export.md), what serve costs at 100 k events/s (docs/serve.md); root
	@tests/bench/exports $(if $(QUICK),"" 1) | tee build/bench/exports.md
	@tests/bench/served 100000 $(if $(QUICK),8 1,20 3) | tee build/bench/served.md

.PHONY: check-cost
check-cost: build/memtrace ## what memtrace says that it costs a job, beside what the job lost: within 15 % or 0.3 points; root
	@tools/install-deps build python
	@tools/make-venv
	@tests/bench/cost

.PHONY: bench-price
bench-price: build/memtrace ## what a budget of 2 % costs jobs of real libraries, and what it still knows (docs/sampling.md); root
	@tools/make-venv libraries
	@tests/bench/price $(if $(SECONDS),--seconds $(SECONDS)) $(BENCH_ARGS)
