# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
# Programs that show how to use the public headers.

$(B)/examples/usdt_example: tools/examples/usdt_example.c include/memtrace/usdt.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARN) -pedantic -O2 -g -Iinclude $< -o $@

.PHONY: examples
examples: $(B)/examples/usdt_example ## example programs
