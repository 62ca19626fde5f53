/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * placing: which operator stands for a line of Python that allocates while none is open (docs/compiled.md), as EV_PLACE.
 *
 * The kernel side tells each such line once, as a code object and an instruction (MT_EV_PLACE). What they are is read on a
 * second thread (live/place_look.h): files of a disk may keep it waiting. Order holds allocations back for 50 ms, so most times
 * what a line is comes before the first of them; the model takes it later, too. Lines that nobody generated are told to the
 * kernel side, which says no more of them.
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
#define PLACING_FINISH_MS 1000 /* at the end of a trace so long is waited for those */

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
int placing__fd(const struct placing *p); /* can be read when placing__done has something to do */
/* A process's interpreter, copied: without it nothing of it is looked at. Also when it has become another program. */
void placing__python(struct placing *p, pid_t pid, const struct py_runtime *rt);
void placing__end(struct placing *p, pid_t pid); /* it is gone */
/* `rec` as it came, of the right length; `place` is the name that allocations there have. */
void placing__seen(struct placing *p, const struct mt_rec_place *rec, name_id place);
void placing__done(struct placing *p); /* says what was found */
void placing__finish(struct placing *p); /* … also what is still looked at, as long as that takes no longer; NULL is fine */
uint64_t placing__left_out_cnt(const struct placing *p); /* lines that there was no room for; NULL is fine: 0 */

#endif
