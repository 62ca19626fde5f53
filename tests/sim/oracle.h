/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * oracle: the model once more, slow and plain: every block ever allocated in one array, every change of a
 * live sum written down, every peak with a full list of what was live. Nothing is kept up to date
 * that can be counted again.
 *
 * It sees the same events as the model. What it cannot know from them, which op and region a block
 * belongs to, it is told by the simulator, which knows what really happened.
 */
#ifndef MT_TESTS_SIM_ORACLE_H
#define MT_TESTS_SIM_ORACLE_H

#include "event/event.h"
#include "timeline/report.h"

#define ORACLE_PAGES 256 /* mappings lie in these pages, from ORACLE_MAP_BASE on */
#define ORACLE_MAP_BASE 0x10000000u
#define ORACLE_PAGE 4096u

struct o_block {
	uint64_t id, ptr, size, allocated, freed;
	uint32_t pid, tid, life; /* index of its process */
	name_id op, region;
	uint8_t dev;
	int live;
};

struct o_change {
	uint64_t ts, value;
};

struct o_dev {
	uint8_t dev;
	int seen;
	uint64_t live, peak, peak_ts;
	uint64_t allocs, frees, alloc_bytes, free_bytes, preexisting, dropped, dropped_bytes;
	uint64_t ooms, oom_last;
	unsigned __int128 byte_ns;
	struct o_change *changes;
	size_t changes_cnt, changes_cap;
	size_t *at_peak; /* block indexes */
	size_t at_peak_cnt, at_peak_cap;
};

struct o_life { /* of a process */
	uint32_t pid, ppid;
	int reported, execed_cnt;
	uint8_t gone, how;
	uint64_t start;
	name_id comm, cmdline;
	uint64_t live, peak, host_live, host_peak, allocs, frees, host_allocs, host_frees;
	uint64_t live_at_exit, rss[MT_RSS_KINDS], rss_peak, cpu_first, cpu;
	int cpu_seen, brk_seen;
	uint32_t exit_status;
	uint64_t brk_base, brk_growth, mapped_peak;
	uint8_t pages[ORACLE_PAGES];
	uint32_t remap_tid;
};

struct o_count {
	name_id name;
	int is_node, is_region;
	uint64_t count;
};

struct oracle {
	uint64_t start, now, last_id, steps;
	int started;
	size_t blocks_max; /* 0: as many as come */
	uint64_t events[256], lost[MT_LOSS_MAX];
	struct o_block *blocks;
	size_t blocks_cnt, blocks_cap;
	struct o_dev devs[256];
	struct o_life *lives;
	size_t lives_cnt, lives_cap;
	struct o_count *counts;
	size_t counts_cnt, counts_cap;
	struct o_change *rss;
	size_t rss_cnt, rss_cap;
};

struct o_truth {
	name_id op, region;
	int lost; /* the op's own record was not delivered */
};

void oracle__init(struct oracle *o);
void oracle__done(struct oracle *o);
/* `truth`: of ALLOC and OOM. */
void oracle__handle(struct oracle *o, const struct event *ev, const struct o_truth *truth);
/* Aborts with a message at the first difference. */
void oracle__compare(const struct oracle *o, const struct report *r, const struct names *names,
		     size_t top);

#define o_must(cond, ...)                                                                          \
	do {                                                                                       \
		if (!(cond))                                                                       \
			o_failed(__FILE__, __LINE__, #cond, __VA_ARGS__);                          \
	} while (0)
_Noreturn void o_failed(const char *file, int line, const char *cond, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
