# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Does anything but the rooms of processors know one? Everything is compiled for another one, whose rooms say "not yet".

.PHONY: check-arch
ifeq ($(ARCH),$(HERE))
check-arch: $(B)/memtrace ## everything compiled for arm64, too, and what it says when it is run
	@tools/install-deps arch
	@$(MAKE) -s --no-print-directory -j$$(nproc) ARCH=$(if $(filter arm64,$(HERE)),x86_64,arm64) CFLAGS="-O0 -Werror" check-arch
else
check-arch: $(OBJS) $(B)/obj/main.o
	@ARCH_MACRO="$(ARCH_MACRO)" LIBS="$(LIBS)" tools/check-arch $(ARCH)
endif
