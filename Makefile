# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# memtrace. `make` builds build/memtrace; `make help` lists the rest.
#
# Packages are named in one place, tools/packages.txt, and installed by tools/install-deps.

# Which processor it is for: user/arch, bpf/arch and include/memtrace/arch have a file or a room for each. One that is not
# this machine's is built beside it, with Debian's cross compiler (make ARCH=arm64 check-arch).
HERE    := $(patsubst aarch64,arm64,$(shell uname -m))
ARCH    ?= $(HERE)
include user/arch/$(ARCH)/arch.mk
ifeq ($(ARCH),$(HERE))
B       := build
CC      ?= gcc
else
B       := build/$(ARCH)
CROSS_CC ?= $(CROSS)-gcc
override CC := $(CROSS_CC)
# Headers of libraries are those of this machine; what differs between processors is the C library's and the kernel's.
CROSS_CFLAGS     := -idirafter /usr/include
CROSS_BPF_CFLAGS := -I/usr/$(CROSS)/include
endif
# dash looks for the first name of a command -v alone, and make drops what a shell said that ends with 127.
CLANG   ?= $(firstword $(shell for c in clang-19 clang-18 clang-17 clang-16 clang-15 clang clang-14; do command -v $$c; done; true) clang)
# Ubuntu's /usr/sbin/bpftool is a wrapper that wants the running kernel's own package.
BPFTOOL ?= $(firstword $(wildcard /usr/lib/linux-tools/*/bpftool /usr/sbin/bpftool) bpftool)
VERSION := $(shell cat VERSION)

CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers
ALL_CFLAGS = -std=gnu11 $(WARN) $(HARDEN) $(CFLAGS) $(ARCH_MACRO) $(CROSS_CFLAGS) -I. -Iinclude -Iuser -I$(B) -D_GNU_SOURCE -DMT_VERSION='"$(VERSION)"'
# What a mistake of ours meets before it is somebody's way in (SECURITY.md). Apart from CFLAGS, which others set;
# tests/e2e/test_hardening.py reads the program for each of them. Replay of 12 M events: 0.80 s of CPU with and without.
# FORTIFY needs an optimizer and is no friend of sanitizers: build/obj alone has it. -z shstk: Debian's crt1.o calls and
# returns in pairs without saying so. IBT is not claimed for it: there the mark comes from a crt1.o that begins with endbr64.
HARDEN    := -fPIE -fstack-protector-strong -fstack-clash-protection $(ARCH_HARDEN)
HARDEN_LD := -pie -Wl,-z,relro,-z,now,-z,noexecstack $(ARCH_HARDEN_LD)
FORTIFY    = $(if $(filter-out -O0,$(filter -O%,$(CFLAGS))),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
LIBS    := -lbpf -lelf $(ARCH_LIBS) -lzstd -ljansson -lyajl -lxxhash -lz -lsqlite3 -lncursesw -ltinfo -lseccomp -lm -l:libsupc++.a

# --- BPF: one object a source, linked, then a skeleton header ----------------------------------
# maps.bpf.c first: libbpf 1.1's linker forgets the offset of a map whose extern it met before it.
BPF_SRCS := bpf/maps.bpf.c $(filter-out bpf/maps.bpf.c,$(wildcard bpf/*.bpf.c))
BPF_OBJS := $(BPF_SRCS:bpf/%.bpf.c=$(B)/bpf/%.bpf.o)
BPF_CFLAGS := -O2 -g -target bpf -mcpu=v3 $(ARCH_MACRO) $(CROSS_BPF_CFLAGS) -I/usr/include/$(shell $(CC) -print-multiarch) -Iinclude -Ibpf -Wall -Wextra -Wno-unused-parameter -Wno-missing-declarations

# --- user side ------------------------------------------------------------------------------------
# The rooms from target to view make one library; main.c and cmd/ sit on top of it.
# Of the processors one.
SRCS := $(sort $(filter-out user/arch/%,$(wildcard user/*/*.c user/*/*/*.c)) $(wildcard user/arch/*.c user/arch/$(ARCH)/*.c))
OBJS := $(SRCS:user/%.c=$(B)/obj/%.o)

.PHONY: all
all: $(B)/memtrace ## build/memtrace (the default)

$(B)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/lib/*.h bpf/arch/*.h include/memtrace/*.h include/memtrace/arch/*.h)
	@mkdir -p $(@D)
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@

$(B)/memtrace.bpf.o: $(BPF_OBJS)
	$(BPFTOOL) gen object $@ $^

$(B)/memtrace.skel.h: $(B)/memtrace.bpf.o
	$(BPFTOOL) gen skeleton $< name mt_bpf > $@.tmp && mv $@.tmp $@

$(patsubst user/%.c,$(B)/obj/%.o,$(wildcard user/trace/*.c)): $(B)/memtrace.skel.h
# What says its version is made anew with it.
VERSIONED := $(shell grep -lrw MT_VERSION user --include='*.c')
$(VERSIONED:user/%.c=$(B)/obj/%.o) $(VERSIONED:user/%.c=$(B)/san/%.o): VERSION
$(B)/obj/%.o: user/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(FORTIFY) -MMD -MP -c $< -o $@

# The estimate is a library of its own, which no program links that only traces (sims, benchmarks, BPF tests). cmd and replay call
# it, and it calls base: the program searches both as one.
ESTIMATE_SRCS := $(filter user/estimate/%,$(SRCS))
ESTIMATE_OBJS := $(ESTIMATE_SRCS:user/%.c=$(B)/obj/%.o)
$(B)/libmemtrace.a: $(filter-out $(ESTIMATE_OBJS),$(OBJS))
$(B)/libmemtrace-estimate.a: $(ESTIMATE_OBJS)
$(B)/libmemtrace.a $(B)/libmemtrace-estimate.a:
	@rm -f $@
	ar rcs $@ $^

$(B)/memtrace: $(B)/obj/main.o $(B)/libmemtrace.a $(B)/libmemtrace-estimate.a
	$(CC) $(ALL_CFLAGS) $(HARDEN_LD) $(LDFLAGS) -Wl,--start-group $^ -Wl,--end-group $(LIBS) -o $@

.PHONY: clean-estimate
clean: clean-estimate
clean-estimate:
	rm -f $(B)/libmemtrace-estimate.a

-include $(OBJS:.o=.d) $(B)/obj/main.d

.PHONY: print-harden
print-harden: # for tools/make-bundle and the test
	@echo $(HARDEN) $(HARDEN_LD) $(FORTIFY)

include tests/tests.mk
-include $(sort $(wildcard tools/*.mk tools/*/*.mk tests/*/*.mk tests/*/*/*.mk))

# A recursive make: packages must be there before make looks for compilers and libraries.
.PHONY: check check-build check-all check-tidy
check: ## everything that must hold: installs what is missing, builds, runs the tests but the longer ones (check-landing) and the slow ones (check-promises)
	@tools/install-deps build test python page alloc viewers arch
	@$(MAKE) --no-print-directory -j3 venv-tests check-build
	@$(MAKE) --no-print-directory check-all
check-build: $(B)/memtrace $(UNIT_BINS) fuzz sims $(B)/tests/test_kernel $(B)/tests/test_sites $(B)/tests/window_of $(B)/tests/gaps_of $(B)/tests/learned_of fault-targets
# The tests of BPF programs wait most of their time for the kernel to let go of probes: the other half of the machine is free.
check-all: check-tidy check-arch check-new-kind
	@printf '%s\n' '$(MAKE) --no-print-directory check-unit check-sim check-fuzz' '$(MAKE) --no-print-directory check-bpf' | tests/abreast
	@$(MAKE) --no-print-directory check-e2e
check-tidy: $(B)/memtrace
	@tools/tidy
	@tools/graph check
	@tools/numbers
	@tools/tables check

# Every other test there is but those of check-landing, in parts: tests/part keeps in tests/promises.tsv when each passed. PARTS="vm soak" runs these alone,
# PARTS=missing those that did not pass with this very commit. Each uses both cores, and ends with what others would disturb, alone. A part
# that fails stops none of the others: the last line fails.
.PHONY: check-promises promises-build
check-promises: ## ... and what the documents promise beyond that: slow tests, kernels 6.1 and 6.12, libraries, faults, soak (PARTS=)
	@tools/install-deps build test python page alloc viewers vm packages
	@$(MAKE) --no-print-directory venv-tests
	@tools/make-venv libraries
	@tests/gpu_stub/fetch $(B)/gpu_wheels
	@$(MAKE) --no-print-directory -j3 check-build promises-build
	-@tests/part faults tests/faults/run --slow --lanes 2
	-@tests/part fuzz $(MAKE) --no-print-directory check-fuzz FUZZ_SEED=0 FUZZ_SECONDS=20
	-@printf '%s\n' 'tests/part vm tests/vm/run' 'tests/part libraries tests/libraries/run' \
		'tests/part soak $(MAKE) --no-print-directory check-soak' | tests/abreast
	-@tests/part slow tests/e2e/run --slow --lanes 2
	-@tests/part versions tests/versions/run check.
	-@tests/part viewers-newest $(MAKE) --no-print-directory check-snapshot-newest
	@tests/part
promises-build: gpu-stub targets $(B)/tests/soak_model $(B)/vm/prog_insns

# One after the other: each is alone with the machine.
.PHONY: docs-tables
docs-tables: ## all tables in docs/ that tests make, anew; but those of other versions of torch, which are fetched
	@$(MAKE) --no-print-directory docs-categories
	@$(MAKE) --no-print-directory docs-names
	@$(MAKE) --no-print-directory docs-saved
	@$(MAKE) --no-print-directory docs-distributed
	@$(MAKE) --no-print-directory docs-compiled
	@$(MAKE) --no-print-directory docs-libraries
	@echo "docs-tables: not run here: make docs-versions docs-compiled-newest docs-distributed-newest"

.PHONY: install
PREFIX ?= /usr/local
SHARE := $(DESTDIR)$(PREFIX)/share
# What documents link to, and is installed elsewhere or not at all.
INSTALLED_LINKS := -e 's:]\(\.\./tools/kubernetes/:](../../../memtrace/kubernetes/:g' -e 's:\[([^]]*)\]\(memtrace\.1\):\1 (man memtrace):g' \
	-e 's:\[([^]]*)\]\((\.\./)?((tests|user|tools|include)/[^)]*)\):\1 (\3 of the sources):g'
install: all ## into PREFIX (default /usr/local)
	install -Dm755 $(B)/memtrace $(DESTDIR)$(PREFIX)/bin/memtrace
	install -Dm644 docs/memtrace.1 $(SHARE)/man/man1/memtrace.1
	install -Dm644 include/memtrace/usdt.h $(DESTDIR)$(PREFIX)/include/memtrace/usdt.h
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	install -d $(SHARE)/memtrace/schema $(SHARE)/memtrace/serve $(SHARE)/memtrace/python $(SHARE)/doc/memtrace/LICENSES $(SHARE)/doc/memtrace/docs
	$(B)/memtrace completion bash | install -m644 /dev/stdin $(SHARE)/bash-completion/completions/memtrace
	$(B)/memtrace completion zsh | install -m644 /dev/stdin $(SHARE)/zsh/site-functions/_memtrace
	$(B)/memtrace completion fish | install -m644 /dev/stdin $(SHARE)/fish/vendor_completions.d/memtrace.fish
	install -m644 docs/schema/*.json $(SHARE)/memtrace/schema
	install -m644 tools/serve/*.* $(SHARE)/memtrace/serve
	cd tools/kubernetes && find . -type f ! -name render | while read -r f; do \
		install -Dm644 "$$f" "$(abspath $(SHARE)/memtrace/kubernetes)/$$f"; done
	cd tools/python && find . -name '*.py' -o -name '*.sql' -o -name pyproject.toml -o -name README.md | while read -r f; do \
		install -Dm644 "$$f" "$(abspath $(SHARE)/memtrace/python)/$$f"; done
	install -m644 README.md CHANGELOG.md SECURITY.md LICENSE $(SHARE)/doc/memtrace
	install -m644 docs/*.md docs/*.png $(SHARE)/doc/memtrace/docs
	sed -Ei $(INSTALLED_LINKS) $(SHARE)/doc/memtrace/*.md $(SHARE)/doc/memtrace/docs/*.md
	ln -sfn ../../../memtrace/schema $(SHARE)/doc/memtrace/docs/schema
	install -m644 LICENSES/* $(SHARE)/doc/memtrace/LICENSES

.PHONY: help
help:
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: clean
clean:
	rm -rf $(B)/bpf $(B)/obj $(B)/tests $(B)/memtrace $(B)/memtrace.bpf.o $(B)/memtrace.skel.h $(B)/libmemtrace.a build/arm64
