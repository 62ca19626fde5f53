/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The places of two thread-local variables of torch. There is no symbol for them: thread-local variables of a library are
 * reached through __tls_get_addr, whose argument is a slot that the loader fills in. So exported functions that only return
 * them are read.
 *
 * at::sequence_number::peek(), and c10::GradMode::is_enabled(), which in 2.13 calls AutogradState::get_tls_state() first. Code
 * of another form (a static build, TLS descriptors) gives nothing, and what depends on it is unknown.
 */
#include <errno.h>
#include <string.h>

#include "plan/plan.h"
#include "target/elf.h"
#include "target/target.h"

static int read_accessor(const struct elf *e, const char *symbol, struct code_accessor *ret)
{
	const uint8_t *code;
	struct elf_sym sym;
	size_t len;

	if (elf__find_symbol(e, symbol, &sym) < 0 || !sym.is_exec)
		return -ENOENT;
	code = elf__code(e, &sym, &len);
	return code ? code_accessor(code, len, sym.vaddr, ret) : -ENOENT;
}

static void find_seq(const struct elf *e, uint64_t bias, struct tls_place *ret)
{
	struct code_accessor a;

	if (!read_accessor(e, "_ZN2at15sequence_number4peekEv", &a) && a.slot && a.field >= 0 && !a.add)
		*ret = (struct tls_place){ a.slot + bias, (uint64_t)a.field };
}

static void find_grad(const struct elf *e, uint64_t bias, struct tls_place *ret)
{
	struct code_accessor is, state = { .field = -1 };

	if (read_accessor(e, "_ZN3c108GradMode10is_enabledEv", &is) || is.field < 0 || is.add)
		return;
	if (!is.slot && read_accessor(e, "_ZN3c1013AutogradState13get_tls_stateEv", &state))
		return;
	if (is.slot || state.slot)
		*ret = (struct tls_place){ (is.slot ? is.slot : state.slot) + bias, state.add + (uint64_t)is.field };
}

void plan__torch_tls(struct torch_tls *ret, struct target *t)
{
	const struct lib *libs;
	size_t cnt = target__libs(t, &libs);

	*ret = (struct torch_tls){ 0 };
	for (size_t i = 0; i < cnt; i++) {
		struct elf *e;
		uint64_t bias;
		int fd;

		if (!strstr(libs[i].base, "torch_cpu") && !strstr(libs[i].base, "libc10"))
			continue;
		fd = target__open_lib(t, &libs[i], NULL);
		if (fd < 0 || elf__open(&e, fd, libs[i].base, NULL))
			continue;
		if (!elf__load_bias(e, libs[i].exec_start, libs[i].exec_off, &bias)) {
			find_seq(e, bias, &ret->seq);
			find_grad(e, bias, &ret->grad);
		}
		elf__free(e);
	}
}
