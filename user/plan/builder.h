/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* builder: a plan in the making; what the files of plan/ share. */
#ifndef MT_PLAN_BUILDER_H
#define MT_PLAN_BUILDER_H

#include "plan/plan.h"
#include "plan/prologue.h"
#include "plan/schema.h"
#include "plan/usdt.h"
#include "target/elf.h"
#include "target/target.h"

#define PLAN_SITES_MAX (1u << 16)
#define PLAN_NOTES_MAX 64
#define CATALOG_ROWS_MAX 128

struct builder {
	struct plan *plan; /* being filled */
	struct target *target;
	struct names *names;
	unsigned sources;
	struct insn_classes classes;
	int has_guards; /* whether an operator was called is asked for */
	size_t sites_cap, vtables_cap;
	/* the library that is looked at */
	const struct lib *lib;
	const struct elf *elf;
	int lib_fd; /* borrowed by nobody yet: goes to plan->libs with the first site */
	uint32_t lib_at; /* in plan->libs; UINT32_MAX: not there yet */
	/* the malloc family's owner, chosen before; NULL: none */
	const struct lib *host_lib;
	/* The C library, where the owner has none: it calls the owner's realloc, or fails by itself. */
	const struct lib *reallocarray_lib;
	struct usdt_pattern *patterns; /* user's first, then those known */
	size_t patterns_cnt;
	uint8_t rows_found[CATALOG_ROWS_MAX]; /* row i of the catalog */
	uint32_t gpu_found; /* functions of the GPUs' memory API */
	uint32_t ops_found, views_found, flow_wanted, flow_found;
	uint16_t *flow_slots; /* hash table over plan->flow_specs: index + 1, 0 = free */
	int flow_optional;    /* enum callconv_optional */
	int flow_waits, flow_late; /* torch's libraries without c10's: planned when that is there */
	uint32_t exe_is_static, exe_is_stripped;
	uint32_t unsafe_cnt; /* of this library: sites where this kernel cannot probe without harm */
	char unsafe_first[128];
};

/*
 * Adds a site to the current library; lib and sym are filled in. 0 or -errno. One too many for the
 * plan is a note, not an error.
 */
int builder__add_site(struct builder *b, const struct site *site, const char *sym);
/* place.c */
/* The cheapest safe instruction at which what is needed is in place. -ENOTSUP: none, counted; -EINVAL: unreadable code. */
int builder__place(struct builder *b, const struct elf_sym *sym, const char *shown, const struct prologue_need *need,
		   struct site *site);
void builder__fill(const struct builder *b, const struct prologue_site *at, uint64_t offset, struct site *site);
void builder__leave_out(struct builder *b, const char *shown);
void builder__note_left_out(struct builder *b); /* at the end of a library */
/* One sentence about what will not be visible. */
void builder__note(struct builder *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void builder__cover(struct builder *b, enum source source, uint32_t wanted, uint32_t found);

/* catalog.c */
int catalog__plan_lib(struct builder *b);
void catalog__cover(struct builder *b);
int catalog__choose_host(struct builder *b, struct err *err);
/* flow.c */
/* Tensor classes and their layout, over all libraries; takes SRC_FLOW back when there is none. */
int flow__begin(struct builder *b, struct err *err);
/*
 * Index of the spec of an operator's arguments in plan->flow_specs; -ENOMEM. schema may be NULL. is_always_read: also
 * the tensors that an operator around it was given.
 */
int flow__spec(struct builder *b, const char *mangled, const struct schema *s, int is_always_read);
/* catalog_gpu.c */
int gpu__plan_lib(struct builder *b);
void gpu__cover(struct builder *b);
/* ops.c */
int ops__plan_lib(struct builder *b);

#endif
