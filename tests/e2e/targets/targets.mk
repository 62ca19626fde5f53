# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Truth targets: programs that know what they allocated. One alone: make build/tests/targets/truth_usdt

TGT := $(B)/tests/targets
TGT_SRC := tests/e2e/targets
TGT_CFLAGS := -std=gnu11 -D_GNU_SOURCE $(WARN) -O2 -g -Iinclude -pthread
# Frames must stay open during the callee, as those of torch do.
TGT_CXXFLAGS := -std=c++17 -D_GNU_SOURCE -Wall -Wextra -Wshadow -O2 -g -fno-optimize-sibling-calls -Iinclude -pthread
TGT_COMMON := $(TGT_SRC)/truth.h include/memtrace/usdt.h $(TGT_SRC)/targets.mk
TGT_BINS := $(addprefix $(TGT)/,truth_usdt truth_malloc truth_dlopen truth_plugin.so truth_fork truth_exec \
	truth_static truth_static_stripped truth_torch truth_new truth_stacks truth_stacks_stripped)

.PHONY: targets
targets: $(TGT_BINS)

$(TGT)/truth_%: $(TGT_SRC)/truth_%.c $(TGT_SRC)/truth_plugin.h $(TGT_COMMON)
	@mkdir -p $(@D)
	$(CC) $(TGT_CFLAGS) $< -o $@ -ldl

$(TGT)/truth_stacks: $(TGT_SRC)/truth_stacks.c $(TGT_COMMON)
	@mkdir -p $(@D)
	$(CC) $(TGT_CFLAGS) -fomit-frame-pointer -fno-optimize-sibling-calls $< -o $@

$(TGT)/truth_stacks_stripped: $(TGT)/truth_stacks
	strip -o $@ $<

$(TGT)/truth_plugin.so: $(TGT_SRC)/truth_plugin.c $(TGT_SRC)/truth_plugin.h $(TGT_COMMON)
	@mkdir -p $(@D)
	$(CC) $(TGT_CFLAGS) -shared -fPIC $< -o $@

$(TGT)/truth_static: $(TGT_SRC)/truth_malloc.c $(TGT_COMMON)
	@mkdir -p $(@D)
	$(CC) $(TGT_CFLAGS) -static $< -o $@

$(TGT)/truth_static_stripped: $(TGT)/truth_static
	strip -o $@ $<

$(TGT)/fake/libc10.so: $(TGT_SRC)/fake_torch/c10.cpp $(TGT_SRC)/fake_torch/fake_torch.h $(TGT_COMMON)
	@mkdir -p $(@D)
	$(CXX) $(TGT_CXXFLAGS) -shared -fPIC -fvisibility=hidden $< -o $@

$(TGT)/fake/libtorch_cpu.so: $(TGT_SRC)/fake_torch/torch_cpu.cpp $(TGT)/fake/libc10.so
	$(CXX) $(TGT_CXXFLAGS) -shared -fPIC -fvisibility=hidden $< -L$(@D) -lc10 -Wl,-rpath,'$$ORIGIN' -o $@

$(TGT)/truth_torch: $(TGT_SRC)/truth_torch.cpp $(TGT)/fake/libtorch_cpu.so
	$(CXX) $(TGT_CXXFLAGS) $< -L$(@D)/fake -ltorch_cpu -lc10 -Wl,-rpath,'$$ORIGIN/fake' -o $@

$(TGT)/truth_new: $(TGT_SRC)/truth_new.cpp $(TGT_COMMON)
	@mkdir -p $(@D)
	$(CXX) $(TGT_CXXFLAGS) -faligned-new -fsized-deallocation $< -o $@

# The same two programs with each allocator of Debian's linked to them, and in them.
ALLOC_STATIC := -Wl,-Bstatic
ALLOC_DYNAMIC := -Wl,-Bdynamic
.PHONY: alloc-targets
alloc-targets: $(TGT)/truth_malloc $(TGT)/truth_new $(foreach a,jemalloc tcmalloc_minimal mimalloc, \
	$(TGT)/alloc/truth_malloc-$(a) $(TGT)/alloc/truth_new-$(a)) $(foreach a,jemalloc tcmalloc_minimal, \
	$(TGT)/alloc/truth_malloc-static-$(a) $(TGT)/alloc/truth_new-static-$(a))

# In the program; the C library stays a library. g++ links, for the allocators are C++.
$(TGT)/alloc/truth_malloc-static-%: $(TGT_SRC)/truth_malloc.c $(TGT_COMMON)
	@mkdir -p $(@D)
	$(CC) $(TGT_CFLAGS) -c $< -o $@.o
	$(CXX) $@.o $(ALLOC_STATIC) -l$* $(ALLOC_DYNAMIC) -pthread -ldl -lm -o $@

$(TGT)/alloc/truth_new-static-%: $(TGT_SRC)/truth_new.cpp $(TGT_COMMON)
	@mkdir -p $(@D)
	$(CXX) $(TGT_CXXFLAGS) $< $(ALLOC_STATIC) -l$* $(ALLOC_DYNAMIC) -ldl -lm -o $@

$(TGT)/alloc/truth_malloc-%: $(TGT_SRC)/truth_malloc.c $(TGT_COMMON)
	@mkdir -p $(@D)
	$(CC) $(TGT_CFLAGS) $< -Wl,--no-as-needed -l$* -o $@

$(TGT)/alloc/truth_new-%: $(TGT_SRC)/truth_new.cpp $(TGT_COMMON)
	@mkdir -p $(@D)
	$(CXX) $(TGT_CXXFLAGS) $< -Wl,--no-as-needed -l$* -o $@
