# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Fuzzing: each tests/fuzz/fuzz_X.c is one libFuzzer program over the rooms that read what comes
# from targets and files, under ASan and UBSan. Seeds: tests/fuzz/corpus/X.
#
#   make check-fuzz                      every one for FUZZ_SECONDS
#   make check-fuzz FUZZ=elf FUZZ_SECONDS=600
#   build/fuzz/fuzz_elf crash-…          again what crashed
#
# A run works on a copy of the seeds; what it found stays in build/fuzz/found/X and is used again.

FUZZ ?= $(sort $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_SECONDS ?= 5
FUZZ_ROOMS := base target python plan event stack model timeline estimate view serve
FUZZ_SRCS := $(foreach room,$(FUZZ_ROOMS),$(sort $(wildcard user/$(room)/*.c)))
FUZZ_OBJS := $(FUZZ_SRCS:user/%.c=$(B)/fuzz/obj/%.o)
FUZZ_CFLAGS = $(ALL_CFLAGS) -Wno-unknown-warning-option -O1 -g -fno-omit-frame-pointer \
	-fsanitize=address,undefined -fno-sanitize-recover=all

$(B)/fuzz/obj/%.o: user/%.c
	@mkdir -p $(@D)
	$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

$(B)/fuzz/libmemtrace.a: $(FUZZ_OBJS)
	@rm -f $@
	ar rcs $@ $^

$(B)/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(B)/fuzz/libmemtrace.a
	@mkdir -p $(@D)
	$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer -Itests -MMD -MP $< $(B)/fuzz/libmemtrace.a $(LIBS) -o $@

-include $(FUZZ_OBJS:.o=.d) $(wildcard $(B)/fuzz/*.d)

.PHONY: fuzz check-fuzz
fuzz: $(FUZZ:%=$(B)/fuzz/fuzz_%)

# One line a fuzzer; all of its output when it fails. What crashed lies in build/fuzz/crash/X.
check-fuzz: fuzz ## every fuzz target for a few seconds
	@set -e; for x in $(FUZZ); do \
		found=$(B)/fuzz/found/$$x; crash=$(B)/fuzz/crash/$$x/; log=$(B)/fuzz/$$x.log; \
		mkdir -p $$found $$crash; \
		if [ -d tests/fuzz/corpus/$$x ]; then cp -r tests/fuzz/corpus/$$x/. $$found/; fi; \
		if ! $(B)/fuzz/fuzz_$$x -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 \
			-print_final_stats=1 -artifact_prefix=$$crash $$found >$$log 2>&1; then \
			tail -60 $$log; echo "FAIL fuzz_$$x: input in $$crash"; exit 1; fi; \
		awk -v x=$$x '/number_of_executed_units/ { n = $$2 } / cov: / { for (i = 1; i < NF; i++) if ($$i == "cov:") c = $$(i + 1) } \
			END { printf "  ok fuzz_%s: %d runs, %d edges\n", x, n, c }' $$log; \
	done
