/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * schema: what an operator takes, writes and returns, from its schema text
 *
 *	[NAMESPACE::]NAME[.OVERLOAD](TYPE NAME[=DEFAULT], …) -> TYPE | (TYPE [NAME], …)
 *
 * and the schemas that are text in a library's read-only data. Nothing is copied: every struct schema_text points into what was
 * parsed. The text is hostile; bad text gives -EINVAL.
 */
#ifndef MT_PLAN_SCHEMA_H
#define MT_PLAN_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

#define SCHEMA_ARGS_MAX	 64 /* most in torch 2.13: 26 */
#define SCHEMA_RETS_MAX	 16
#define SCHEMA_BYTES_MAX 4096

struct schema_text {
	const char *at; /* not terminated */
	size_t len;
};

/* One argument or result. */
struct schema_value {
	struct schema_text type;  /* "Tensor(a!)[]", "SymInt[2]?" */
	struct schema_text name;  /* empty: a result without a name */
	uint8_t is_tensor; /* a tensor, or a list or optional of such */
	uint8_t is_list;
	uint8_t is_optional;
	uint8_t is_alias;   /* has an annotation: shares storage with everything that has the same letter */
	uint8_t is_written; /* annotation with '!' */
	uint8_t is_kwarg_only;
};

struct schema {
	struct schema_text ns, name, overload; /* ns and overload may be empty */
	struct schema_value args[SCHEMA_ARGS_MAX];
	size_t args_cnt;
	struct schema_value rets[SCHEMA_RETS_MAX];
	size_t rets_cnt;
};

/* 0, or -EINVAL: not a schema, or over a limit; then *ret must not be used. Its texts are in `text`. */
int schema_parse(const char *text, size_t len, struct schema *ret);

enum schema_effect {
	SCHEMA_NONE = 0, /* neither allocates, writes nor views: no probe needed */
	SCHEMA_VIEWS,	 /* every tensor it returns shares the memory of an argument, none is written */
	SCHEMA_TOUCHES,	 /* may allocate or write */
};
/* What a call can do to tensor memory by itself; the operators that it calls have schemas of their own. */
enum schema_effect schema__effect(const struct schema *s);

/* All schemas of a library, by the C++ name of their operator ("add_Tensor"). */
struct schema_index;

/* `data` (read-only data of the library) is borrowed for the life of the index. NULL: no memory. */
struct schema_index *schema_index__new(const uint8_t *data, size_t len);
void schema_index__free(struct schema_index *x);
/* The schema text of at::_ops::<op>: 0 or -ENOENT. */
int schema_index__find(struct schema_index *x, const char *op, size_t op_len, struct schema_text *ret);
/* Number of separate texts. */
size_t schema_index__cnt(const struct schema_index *x);

/* The code that registers the schemas, and the address of the index's data, to choose among several possible texts. */
struct schema_code {
	const uint8_t *code; /* borrowed until the next call */
	size_t len;
	uint64_t vaddr, data_vaddr;
};
/* 0, or -ENOENT: unknown. */
typedef int schema_code_fn(void *ctx, struct schema_code *ret);
/* `ask` is called once, when an operator's text is not separate: finding that code is expensive. */
void schema_index__when_in_doubt(struct schema_index *x, schema_code_fn *ask, void *ctx);

/* The index of a library, with access to that code. -ENOENT: it has no read-only data; -ENOMEM. */
struct elf;
int schema_index__of(const struct elf *e, struct schema_index **ret);

#endif
