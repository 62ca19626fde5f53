# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Fuzzing: each tests/fuzz/fuzz_X.c is one libFuzzer program over the rooms that read what comes
# from targets and files, under ASan and UBSan. Seeds: tests/fuzz/corpus/X.
#
#   make check-fuzz                      every one for FUZZ_SECONDS, from the same seed each time: it tells what a change broke
#   make check-fuzz FUZZ_SEED=0          from another seed at each run: it looks for what was always broken (check-promises)
#   make check-fuzz FUZZ=elf FUZZ_SECONDS=600 FUZZ_SEED=0
#   build/fuzz/fuzz_elf crash-…          again what crashed

FUZZ ?= $(sort $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_SECONDS ?= 5
FUZZ_SEED ?= 1
FUZZ_ROOMS := base arch target python plan event stack model timeline verdict estimate view serve
FUZZ_SRCS := $(filter $(FUZZ_ROOMS:%=user/%/%),$(SRCS))
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

check-fuzz: fuzz ## every fuzz target for a few seconds
	@for x in $(FUZZ); do echo "tests/fuzz/one $(B) $$x $(FUZZ_SECONDS) $(FUZZ_SEED)"; done | tests/abreast
