# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# End-to-end tests: the real program on real jobs. One alone: tests/e2e/run NAME

.PHONY: check-e2e
check-e2e: build/memtrace ## the shorter end-to-end tests (root; sudo is used if needed)
	@tools/make-venv
	@tests/e2e/run --quick --lanes 2

.PHONY: check-e2e-all
check-e2e-all: build/memtrace ## every end-to-end test, half an hour on a busy machine
	@tools/make-venv
	@tests/e2e/run

.PHONY: check-agreement
check-agreement: build/memtrace ## categories against torch.profiler, held to 99.9 % of byte-time
	@tests/e2e/run categories

.PHONY: check-torch-1.13
check-torch-1.13: build/memtrace ## arguments and categories with Debian's torch 1.13 (installs python3-torch)
	@tools/make-venv
	@if tools/install-deps torch-1.13; then tests/e2e/run versions.torch_113; \
	else echo "check-torch-1.13: skipped: python3-torch cannot be had"; fi

# Tables of the documents: tools/tables.
.PHONY: docs-categories docs-names docs-saved docs-distributed docs-compiled
docs-categories: check-agreement ## ... and its tables into docs/categories.md
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/test_categories.py
	@tools/tables put categories
docs-names: build/memtrace ## names of tensors against the job's own, and the table into docs/names.md
	@tools/make-venv
	@tests/e2e/run names
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/test_names.py
	@tools/tables put names
docs-saved: build/memtrace ## what autograd keeps against saved-tensor hooks of the job, and the table into docs/saved.md
	@tools/make-venv
	@tests/e2e/run saved
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/test_saved.py
	@tools/tables put saved
docs-compiled: build/memtrace ## compiled jobs against their own word, and the table into docs/compiled.md
	@tools/make-venv
	@tests/e2e/run $(if $(ROW),$(ROW:%=compiled_jobs.%),compiled_jobs)
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/test_compiled_jobs.py $(ROW)
	@tools/tables put compiled

# The newest torch that is known, on the first of its Pythons that is here: fetched once, and kept in build/versions/kept (3.5 GB). Where
# it cannot be had, torch 2.13 alone. A compiled job waits for compilers most of its time, which nobody times: two abreast, the first
# of which fetches. What make check has run with 2.13 is not run again.
NEWEST := 2.15.0
ON_NEWEST = tests/versions/check --keep $(NEWEST) || { [ $$? = 2 ]; exit; }; \
	MT_TABLES=newest tests/versions/check --with $(NEWEST) tests/e2e/run
.PHONY: check-compiled check-compiled-jobs check-landing
check-compiled: ## compiled and distributed jobs against their own word, on torch 2.13 and 2.15 (root; fetches 3.5 GB once)
check-compiled-jobs: ## ... the compiled ones alone
check-landing: ## ... these, the end-to-end tests that take longer, six jobs of two ranks, three of them compiled, on torch 2.13, PyTorch's CUDA allocator without a GPU, and memory_viz of torch 2.15
check-compiled: ROWS := compiled_jobs. distributed.
check-compiled-jobs check-landing: ROWS := compiled_jobs.
check-landing: NOT := --without teacher_launched
LANDING_ALSO :=
LANDING_RANKS := tensor_attached fsdp2_compiled_attached tensor_compiled_attached ddp_compiled_launched fsdp2_launched pipeline_attached
check-landing: LANDING_ALSO = 'tests/e2e/run --slow $(LANDING_RANKS:%=distributed.%)' \
	'$(MAKE) --no-print-directory check-gpu-stub GPU_TESTS="--slow gpu_torch gpu_report gpu_train"'
check-compiled check-compiled-jobs check-landing:
	@tools/install-deps build python
	@tools/make-venv
	@$(MAKE) --no-print-directory build/memtrace
	@[ $@ != check-landing ] || tests/e2e/run --landing --lanes 2
	@printf '%s\n' '$(ON_NEWEST) $(NOT) $(ROWS)' $(ROWS:%='tests/e2e/run --slow $(NOT) %') $(LANDING_ALSO) | tests/abreast
	@[ $@ != check-landing ] || [ ! -e build/versions/kept/$(NEWEST) ] || tests/e2e/run --slow viewers.torch_snapshot_in_newest
	@[ -e build/versions/kept/$(NEWEST) ] || echo "$@: with torch 2.13 alone, as $(NEWEST) cannot be had here (its reason stands above)"
	@[ $@ != check-landing ] || [ -e $(GS_WHEELS)/ready ] || echo "$@: without PyTorch's CUDA allocator, as its wheels cannot be had here"

.PHONY: docs-compiled-newest docs-distributed-newest
docs-compiled-newest: build/memtrace ## the same with the newest torch that is known, which is fetched, and removed
	@tools/make-venv
	@MT_TABLES=newest tests/versions/check --with $(NEWEST) tests/e2e/run $(if $(ROW),$(ROW:%=compiled_jobs.%),compiled_jobs)
	@MT_TABLES=newest PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/test_compiled_jobs.py $(ROW)
	@tools/tables put compiled-newest

docs-distributed: build/memtrace ## distributed jobs against their own word, and the table into docs/ranks.md
	@tools/make-venv
	@tests/e2e/run $(if $(ROW),$(ROW:%=distributed.%),distributed)
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/test_distributed.py $(ROW)
	@tools/tables put distributed
docs-distributed-newest: build/memtrace ## the same with the newest torch that is known, which is fetched, and removed
	@tools/make-venv
	@MT_TABLES=newest tests/versions/check --with $(NEWEST) tests/e2e/run $(if $(ROW),$(ROW:%=distributed.%),distributed)
	@MT_TABLES=newest PYTHONDONTWRITEBYTECODE=1 python3 tests/e2e/test_distributed.py $(ROW)
	@tools/tables put distributed-newest

# A recording through the flight recorder (test_leaks.py), and with gaps (test_levels.py), which build and run them.
$(B)/tests/window_of $(B)/tests/gaps_of $(B)/tests/learned_of: $(B)/tests/%: tests/e2e/%.c $(B)/libmemtrace.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $< $(B)/libmemtrace.a $(LIBS) -o $@
check-e2e check-e2e-all check-landing check-steady: $(B)/tests/window_of $(B)/tests/gaps_of $(B)/tests/learned_of

.PHONY: check-steady
check-steady: build/memtrace ## the end-to-end tests of make check, what is missing of five rounds and of five beside two busy loops (ROUNDS=1 BUSY=1)
	@tools/make-venv
	@tests/e2e/steady $(ROUNDS) $(BUSY:%=--busy %)

.PHONY: check-snapshot-newest
check-snapshot-newest: build/memtrace ## torch-snapshot opened by the newest torch's own _memory_viz (root; fetches it once, as check-compiled does)
	@tools/make-venv
	@tests/versions/check --keep $(NEWEST)
	@tests/e2e/run --slow viewers.torch_snapshot_in_newest viewers.torch_snapshot_of_pinned_in_newest
