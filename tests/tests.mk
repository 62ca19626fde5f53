# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Tests. Unit tests: each tests/unit/test_X.c is one cmocka program, linked with the library under
# ASan and UBSan (its own objects, in build/san). One test alone: make build/tests/test_X && build/tests/test_X

SAN_CFLAGS := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
SAN_OBJS := $(SRCS:user/%.c=$(B)/san/%.o)
SAN_ESTIMATE_OBJS := $(ESTIMATE_SRCS:user/%.c=$(B)/san/%.o)
UNIT_SRCS := $(wildcard tests/unit/test_*.c)
UNIT_BINS := $(UNIT_SRCS:tests/unit/%.c=$(B)/tests/%)

$(patsubst user/%.c,$(B)/san/%.o,$(wildcard user/trace/*.c)): $(B)/memtrace.skel.h
$(B)/san/%.o: user/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(SAN_CFLAGS) -MMD -MP -c $< -o $@
$(B)/libmemtrace-san.a: $(filter-out $(SAN_ESTIMATE_OBJS),$(SAN_OBJS))
$(B)/libmemtrace-estimate-san.a: $(SAN_ESTIMATE_OBJS)
$(B)/libmemtrace-san.a $(B)/libmemtrace-estimate-san.a:
	@rm -f $@
	ar rcs $@ $^
# The estimate's own tests are the ones that link it.
$(patsubst %,$(B)/tests/test_%,estimate kept mates seed shard): UNIT_LIBS = $(B)/libmemtrace-estimate-san.a
$(patsubst %,$(B)/tests/test_%,estimate kept mates seed shard): $(B)/libmemtrace-estimate-san.a
$(B)/tests/test_options: VERSION
$(B)/tests/test_%: tests/unit/test_%.c $(B)/libmemtrace-san.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(SAN_CFLAGS) -Itests -MMD -MP $< $(UNIT_LIBS) $(B)/libmemtrace-san.a $(LIBS) -lcmocka -o $@
-include $(SAN_OBJS:.o=.d) $(wildcard $(B)/tests/*.d)

.PHONY: check-unit
check-unit: $(UNIT_BINS)
	@printf '%s\n' $(UNIT_BINS) | tests/abreast

# BPF programs in the kernel (root). What is wrapped: self.h.
BPF_TEST_LD := -Wl,--wrap=selftest_run,--wrap=calib_run
$(B)/tests/test_kernel $(B)/tests/test_sites: $(B)/tests/%: tests/bpf/%.c tests/bpf/self.h $(B)/libmemtrace.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -O1 -fno-optimize-sibling-calls -Wno-missing-prototypes $< $(B)/libmemtrace.a $(LIBS) -lcmocka $(BPF_TEST_LD) -o $@
.PHONY: check-bpf
check-bpf: $(B)/tests/test_kernel $(B)/tests/test_sites
	@set -e; for t in $^; do if [ "$$(id -u)" = 0 ]; then $$t; else sudo $$t; fi; done

# Programs that measure one room alone; numbers are in tests/bench/README.md.
$(B)/tests/gen_recording $(B)/tests/gen_ranks: $(B)/tests/%: tests/bench/%.c $(B)/libmemtrace.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests $< $(B)/libmemtrace.a $(LIBS) -o $@
$(B)/tests/bench_%: tests/bench/bench_%.c $(B)/libmemtrace.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests $< $(B)/libmemtrace.a $(LIBS) -o $@

.PHONY: check-new-kind
check-new-kind: ## how many files a new kind of event takes: one is added to a copy, recorded, read back and reported
	@tests/new_kind/run

# A change of structure changes no output: those of this tree beside those of BASE, which is built apart and kept. The recordings:
# those of the tests and one of a job that never ran; better, real ones, too.
RECORDINGS ?=
.PHONY: check-same-output
check-same-output: $(B)/memtrace $(B)/tests/gen_recording ## every report and export beside those of another commit, byte for byte (BASE=COMMIT, RECORDINGS="FILE.mtr…")
	@git rev-parse -q --verify '$(BASE)^{commit}' >/dev/null || { echo "check-same-output: which commit? BASE=HEAD~1" >&2; exit 2; }
	@test -d $(B)/base/.git || git clone -qs . $(B)/base
	@git -C $(B)/base checkout -qf --detach "$$(git rev-parse '$(BASE)^{commit}')"
	@mkdir -p $(B)/base/build && ln -sfn $(abspath build/uplot) $(B)/base/build/uplot
	@$(MAKE) --no-print-directory -sC $(B)/base
	@$(B)/tests/gen_recording 200000 3 $(B)/base/build/gen.mtr
	@tests/same-output $(B)/base/build/memtrace $(B)/memtrace tests/fuzz/corpus/recording/*.mtr $(B)/base/build/gen.mtr $(RECORDINGS)
