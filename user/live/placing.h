/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * placing: which operator a line of Python stands for that allocates while no operator is open (docs/compiled.md), as EV_PLACE.
 *
 * The kernel side reports each such line once, as a code object and an instruction (MT_EV_PLACE). These are looked up on a
 * second thread (live/place_look.h), because disks may hold it up. Order holds allocations back for 50 ms, so the answer mostly
 * comes before the first of them; the model also takes it later. Lines that are not generated are reported back to the kernel
 * side, which sends no more of them.
 */
#ifndef MT_LIVE_PLACING_H
#define MT_LIVE_PLACING_H

#include <stdint.h>
#include <sys/types.h>

#include "base/names.h"
#include "live/tell.h"

#define PLACING_PLACES_MAX 65536u
#define PLACING_PART 2	       /* one process has this part of what the others leave */
#define PLACING_WAITING_MAX 16384u /* not looked at yet; 200 bytes each */
#define PLACING_FINISH_MS 1000 /* the longest wait for those, at the end of a trace */

struct err;
struct keeper;
struct mt_rec_place;
struct placing;
struct py_runtime;

struct placing_env {
	struct keeper *keeper;
	struct tell tell;
};

/* 0, or -errno with *err; *ret is the caller's, for placing__free, and untouched on failure. env->keeper is borrowed. */
int placing__new(struct placing **ret, const struct placing_env *env, struct err *err);
void placing__free(struct placing *p); /* NULL is fine */
int placing__fd(const struct placing *p); /* readable when placing__done has something to do */
/* A process's interpreter, copied: needed before its lines are looked at. Also when it runs another program. */
void placing__python(struct placing *p, pid_t pid, const struct py_runtime *rt);
void placing__end(struct placing *p, pid_t pid); /* it has ended */
/* `rec` as received, of the right length; `place`: the name that allocations there have. */
void placing__seen(struct placing *p, const struct mt_rec_place *rec, name_id place);
void placing__done(struct placing *p); /* reports what was found */
void placing__finish(struct placing *p); /* … also of the looks that end within PLACING_FINISH_MS; NULL is fine */
uint64_t placing__left_out_cnt(const struct placing *p); /* lines that found no room; NULL is fine: 0 */

#endif
