# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Other kernels than the running one: tests/vm/README.md. Needs no root but for installing packages.

$(B)/vm/prog_insns: tests/vm/prog_insns.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $< -lbpf -o $@

.PHONY: check-vm
check-vm: $(B)/memtrace $(B)/tests/test_kernel $(B)/tests/test_sites $(B)/vm/prog_insns targets ## Debian's kernels 6.1 and 6.12, in qemu
	@tools/install-deps python vm
	@tests/vm/run
