/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * cookies: what a site's cookie tells its program, and what the program finds in the kernel's maps by it: the number of a spec
 * (kept once, however many sites and processes have an equal one), the number of a layout, a slot that counts how often a
 * symbol fired. Also the classes of objects by process, which flow's programs look up.
 *
 * The tables are shared by all processes: no process has more than a part of one, what does not fit is left out and counted,
 * and entries of a process that has ended make room for others' unless another process has them, too. The maps and the layouts
 * belong to the skeleton, which must outlive this.
 */
#ifndef MT_TRACE_COOKIES_H
#define MT_TRACE_COOKIES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/names.h"
#include "memtrace/shared.h"
#include "memtrace/event.h"

struct mt_bpf; /* the skeleton */
struct plan;
struct site;

/* Kept for calibration. */
#define SPEC_CALIB (MT_USDT_SPECS_MAX - 1)
#define SEG_SPEC_CALIB (MT_SEG_SPECS_MAX - 1)

enum { SPEC_USDT, SPEC_SEG, SPEC_FLOW, SPEC_TABLES };

/* The content of one of the maps of specs: `cnt` places were used so far, of `bytes` each. */
struct spec_table {
	int map_fd;
	size_t bytes;
	uint32_t cnt, max;
	uint32_t share;	 /* the most that one process may have */
	char *v;	 /* max of them; NULL until the first */
	uint32_t *users; /* number of processes with each; 0: free, though an equal one may use it again */
};

/* The places of the tables that a process has. */
struct spec_user {
	pid_t pid;
	struct {
		uint64_t bits[MT_FLOW_SPECS_MAX / 64];
		uint32_t cnt;
	} of[SPEC_TABLES];
	uint64_t layouts;
	uint64_t slots[MT_FIRED_MAX / 64];
	uint32_t slots_cnt;
};

struct cookies {
	struct spec_table specs[SPEC_TABLES];
	struct spec_user **users; /* one a process */
	size_t users_cnt, users_cap;
	struct spec_user *user; /* the one whose plan is being attached */
	struct mt_flow_layout *layouts;
	uint32_t layouts_cnt, layout_users[MT_FLOW_LAYOUTS_MAX];
	uint32_t *flow_index; /* of the plan being attached: its spec number → ours + 1, 0 = not looked up yet */
	int flow_layout;      /* … and its layout's number; < 0: no room for it */
	struct mt_class_key *classes; /* in the map of classes */
	size_t classes_cnt, classes_cap;
	int classes_fd, fired_fd;
	struct {
		name_id sym;
		enum mt_prog prog;
		uint32_t users; /* number of processes; 0: free, though the symbol may use it again */
	} fired[MT_FIRED_MAX]; /* [slot]; slot 0 is unused */
	uint32_t fired_cnt, fired_used; /* slots ever used; slots with users */
	uint32_t slots_left_out; /* symbols of the present plan without a slot: they fire, but are not counted */
	name_id prog_sym[MT_PROG_MAX]; /* of programs that serve one symbol */
};

void cookies__init(struct cookies *c, const struct mt_bpf *skel); /* once it is loaded */
void cookies__done(struct cookies *c);
/*
 * Before the cookies of a plan's sites in a process: its layout and classes. 0 or -errno; *ret_left_out (NULL: not needed):
 * classes without room, whose objects are unknown then.
 */
int cookies__begin(struct cookies *c, pid_t pid, const struct plan *plan, uint32_t *ret_left_out);
/* For a site of the plan that was begun last. 0 or -errno; -ENOSPC: no room for this one. */
int cookies__of(struct cookies *c, const struct plan *plan, const struct site *s, uint64_t *ret);
void cookies__drop_pid(struct cookies *c, pid_t pid);
/* Symbols of programs other than the operators', with how often each fired; hits: by program. 0 or -ENOMEM. */
int cookies__each_fired(const struct cookies *c, const uint64_t hits[MT_PROG_MAX],
			void (*fn)(void *ctx, name_id sym, uint64_t cnt), void *ctx);

#endif
