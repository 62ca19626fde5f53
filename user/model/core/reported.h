/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * reported: memtrace's reports of itself, from events: where it attached, what it lost, what it costs, what it
 * cannot see. The latest report counts; those of symbols add up. Bounded: of too many covers the oldest
 * are dropped (not the main target's), of too many notes and symbols the later ones.
 */
#ifndef MT_MODEL_REPORTED_H
#define MT_MODEL_REPORTED_H

#include <stdbool.h>

#include "event/event.h"

#define REPORTED_COVERS_MAX 1024
#define REPORTED_NOTES_MAX 256
#define REPORTED_SYMBOLS_MAX 65536
#define REPORTED_LATE_MAX 256

struct reported_cover {
	uint32_t pid;
	name_id source;
	uint64_t found, attached;
};

/* A probed symbol, in all processes together. */
struct reported_symbol {
	name_id name;
	uint32_t prog; /* enum mt_prog */
	uint32_t source; /* bit number */
	uint64_t found, attached, fired, fired_base;
};

/* An idle operator: it had no probe until it was called. */
struct reported_late {
	name_id name;
	uint32_t pid;
	uint64_t ts_ns, missed_ns;
};

struct reported {
	bool ended;
	uint32_t main_pid, end_reason;
	int64_t epoch_off_ns;
	name_id host;
	struct reported_cover *covers;
	size_t covers_cnt, covers_cap;
	name_id notes[REPORTED_NOTES_MAX];
	size_t notes_cnt;
	uint64_t idle_ts_ns, idle_ops, idle_probes; /* since when, how many; probes taken away */
	struct reported_late late[REPORTED_LATE_MAX]; /* the first ones */
	uint64_t late_cnt;
	struct reported_cost {
		uint64_t hits, ns, base_hits, base_ns; /* base: when the recording began */
	} costs[MT_PROG_MAX];
	uint64_t lost[MT_LOSS_MAX];
	uint64_t self_base_ns;
	uint64_t self_rss, self_cpu_ns;
	struct reported_symbol *symbols;
	size_t symbols_cnt, symbols_cap;
	uint32_t *symbol_of; /* [name id], index + 1 in symbols, 0 = none */
	size_t symbol_of_cnt;
};

void reported__done(struct reported *t);
/* EV_BEGIN, END, COVER, NOTE, COST, LOSS, SELF, SITE, FIRED, IDLE, LATE_OP. */
uint64_t reported__probe_ns(const struct reported *t); /* that all probes took until now, by calibration */
/* Of these a hit of an allocation or a free, on average; 0: there was none. */
double reported__block_ns(const struct reported *t);
void reported__handle(struct reported *t, const struct event *ev);

#endif
