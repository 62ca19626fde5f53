/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "memtrace/event.h"
#include "python/linetable.h"
#include "python/object_head.h"

/* The same in 3.10 to 3.13. */
#define BYTES_SIZE OB_SIZE
#define BYTES_DATA 32

static uint32_t char_at(const uint8_t *raw, unsigned kind, size_t i)
{
	uint16_t two;
	uint32_t four;

	if (kind == 1)
		return raw[i];
	if (kind == 2) {
		memcpy(&two, raw + 2 * i, sizeof(two));
		return two;
	}
	memcpy(&four, raw + 4 * i, sizeof(four));
	return four;
}

/* The end of a compact str, as UTF-8: the part of a path that differs from others. */
static int read_str(const struct py_runtime *rt, const struct py_mem *mem, uint64_t addr, char *out)
{
	uint8_t raw[4 * PY_CODE_TEXT_MAX];
	uint64_t length, skip = 0, room;
	uint32_t state;
	unsigned kind;
	size_t n = 0;

	if (!py_plausible(addr) || py_mem__read(mem, addr + STR_LENGTH, &length, sizeof(length)) ||
	    py_mem__read(mem, addr + STR_STATE, &state, sizeof(state)))
		return -ESTALE;
	kind = STR_KIND(state);
	if (!STR_COMPACT(state) || (kind != 1 && (STR_ASCII(state) || (kind != 2 && kind != 4))) || !length ||
	    length > 1u << 20)
		return -ESTALE;
	room = (PY_CODE_TEXT_MAX - 4) / (STR_ASCII(state) ? 1 : kind == 4 ? 4 : kind + 1); /* in UTF-8 */
	if (length > room)
		skip = length - room;
	addr += (STR_ASCII(state) ? rt->at->str_ascii : rt->at->str_other) + skip * kind;
	length -= skip;
	if (py_mem__read(mem, addr, raw, length * kind))
		return -ESTALE;
	for (size_t i = 0; i < length; i++) {
		uint32_t c = char_at(raw, kind, i);

		if (STR_ASCII(state) && c > 127)
			return -ESTALE; /* freed since, or never a str: it would need more room than there is */
		n += utf8_encode(c, out + n);
	}
	out[n] = '\0';
	return 0;
}

static int read_table(struct py_code *c, const struct py_mem *mem, uint64_t addr)
{
	uint64_t len;

	if (!py_plausible(addr) || py_mem__read(mem, addr + BYTES_SIZE, &len, sizeof(len)) || !len || len > PY_LINETABLE_MAX)
		return 0; /* lines are unknown, the function is known */
	c->table = malloc(len);
	if (!c->table)
		return -ENOMEM;
	if (!py_mem__read(mem, addr + BYTES_DATA, c->table, len)) {
		c->table_len = len;
		return 0;
	}
	free(c->table);
	c->table = NULL;
	return 0;
}

static int is_that_code(const struct py_runtime *rt, const struct py_mem *mem, uint64_t addr, uint64_t check)
{
	__u64 words[MT_PY_CHECK_WORDS];
	uint64_t refs;

	/* A freed object keeps its type, but has a pointer of the allocator in place of its reference count. */
	return py_plausible(addr) && !py_mem__read(mem, addr, &refs, sizeof(refs)) && refs && refs <= UINT32_MAX &&
	       py_mem__ptr(mem, addr + OB_TYPE) == rt->code_type &&
	       !py_mem__read(mem, addr + rt->at->code_check, words, sizeof(words)) && mt_py_check(words) == check;
}

int py_code__read(struct py_code *ret, const struct py_runtime *rt, const struct py_mem *mem, uint64_t addr,
		  uint64_t check)
{
	const struct py_frame_offsets *at = rt->at;
	struct py_code c = { .first_instr = at->code_bytecode ? addr + at->code_bytecode : 0 };
	int32_t line;
	int r;

	if (!is_that_code(rt, mem, addr, check) || py_mem__read(mem, addr + at->code_firstlineno, &line, sizeof(line)))
		return -ESTALE;
	c.firstlineno = line > 0 ? (uint32_t)line : 0;
	r = read_str(rt, mem, py_mem__ptr(mem, addr + at->code_filename), c.file);
	if (!r)
		r = read_str(rt, mem, py_mem__ptr(mem, addr + at->code_qualname), c.function);
	if (!r)
		r = read_table(&c, mem, py_mem__ptr(mem, addr + at->code_linetable));
	if (!r && !is_that_code(rt, mem, addr, check)) /* freed while it was read */
		r = -ESTALE;
	if (r < 0) {
		py_code__done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

void py_code__done(struct py_code *c)
{
	free(c->table);
	c->table = NULL;
}

uint32_t py_code__line(const struct py_code *c, unsigned minor, uint64_t instr)
{
	uint64_t at = minor == 10 ? 2 * instr : instr - c->first_instr;

	if (!c->table || (minor != 10 && instr < c->first_instr))
		return 0;
	return py_line(minor, c->table, c->table_len, c->firstlineno, at);
}
