/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * cache: what was found in a file, for the next process that has it mapped.
 *
 * A file is known by device, inode, size and both of its times, and by what decides how it is looked at: the last part of its
 * path, whether it is the program. Where it is mapped does not matter: everything is in the file's own addresses. A file that
 * was changed in the last two seconds is not kept: times have a coarse tick, and it may change again within one.
 *
 * One thread at a time. Bounds: CACHE_FILES_MAX files, CACHE_BYTES_MAX of finds; the least recently used go first. All plans
 * made with one cache have the same usdt patterns and keep_idle.
 */
#ifndef MT_PLAN_CACHE_H
#define MT_PLAN_CACHE_H

#include "plan/builder.h"

#define CACHE_FILES_MAX 8192
#define CACHE_BYTES_MAX (64u << 20) /* torch 2.13's libtorch_cpu.so takes 1.1 MB */

/* What the result depends on, besides the file. */
struct find_key {
	unsigned sources;
	int flow_optional;
	int is_host, is_reallocarray; /* it is the allocator's; it only provides reallocarray for it */
	uint32_t usable;	      /* bits of enum insn_class: what may be probed in this process */
};

/* The plan of a single file, with the counts that builder has besides it. */
struct find {
	struct find *next;
	struct find_key key;
	struct plan *plan;
	struct names *names; /* of plan; NULL: no names */
	uint8_t rows_found[CATALOG_ROWS_MAX];
	uint32_t gpu_found, ops_found, views_found, flow_wanted, flow_found;
	uint32_t *pattern_sites; /* of the builder's patterns: two a pattern, planned and left out */
	size_t bytes;
	uint64_t used;
};

struct plan_file {
	struct elf_stamp stamp;
	char *base;
	int is_exe;
	int is_lasting; /* else it is only for the plan that is being made */
	const char *why; /* why it was left out; NULL: it was not */
	struct file_facts facts;
	struct find *finds;
	uint64_t used;
};

/* The cache's; valid until the next plan begins. NULL: not found. */
struct plan_file *plan_cache__find(struct plan_cache *c, const struct elf_stamp *stamp, const char *base, int is_exe);
/* NULL: no memory. Valid until the next plan begins. */
struct plan_file *plan_cache__add(struct plan_cache *c, const struct elf_stamp *stamp, const char *base, int is_exe);
/* Before a plan is made: drops what was only for the last one, and what is too much. */
void plan_cache__begin(struct plan_cache *c);
struct find *plan_file__find(struct plan_cache *c, struct plan_file *f, const struct find_key *key); /* NULL: not found */
/* Takes ownership; may drop other finds for it. */
void plan_file__keep(struct plan_cache *c, struct plan_file *f, struct find *find);
void find__free(struct find *f); /* for finds that no cache has taken; NULL is fine */

#endif
