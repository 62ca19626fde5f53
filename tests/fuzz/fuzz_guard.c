/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as the code of a function of the target: where its guard is, which fields and addresses it uses; and as a library
 * that says where threads keep torch's variables.
 */
#include "../../user/plan/tls.c"

#include <stdlib.h>

#include "arch/arch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int stop_at(void *ctx, uint64_t addr)
{
	return addr == *(uint64_t *)ctx ? -1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tls_place seq = { 0 }, grad = { 0 };
	uint64_t at = 0, vaddr = size ? (uint64_t)data[0] << 56 | data[size - 1] : 0;
	uint8_t *code = malloc(size ? size : 1); /* of its own: reading past it is seen */
	struct code_accessor accessor;
	struct code_fields fields;
	struct code_uses uses;
	struct elf *e;

	if (size)
		memcpy(code, data, size);
	(void)guard_find(code, size, vaddr, &at);
	(void)guard_find(code, size / 2, 0x1000, &at);
	(void)code_accessor(code, size, vaddr, &accessor);
	code_uses(code, size, &uses);
	for (unsigned n = 0; n <= MT_ARG_REGS; n++) {
		code_fields(code, size, n, 64, &fields);
		(void)code_compared(code, size, n, 8, 64);
	}
	(void)code_addresses(code, size, vaddr, stop_at, &at);
	if (!elf__open_mem(&e, code, size, "fuzz", NULL)) {
		find_seq(e, 0x10000, &seq);
		find_grad(e, 0x10000, &grad);
		elf__free(e);
	}
	free(code);
	return 0;
}
