/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * survey: looks for the jobs of this machine (timeline/survey.h), in a process of its own, which gives its rights away before
 * it reads what the jobs wrote, and has half a minute: a process can hold up whoever reads its arguments.
 */
#ifndef MT_LIVE_SURVEY_H
#define MT_LIVE_SURVEY_H

#include "timeline/survey.h"

struct asker;
struct err;

/*
 * may_look: we have CAP_SYS_PTRACE. name: what is_named is about: a word of the command line, or its end behind a slash; NULL.
 * 0 or -errno.
 */
int survey_make(struct survey *ret, const struct asker *as, int may_look, const char *name, struct err *err);
void survey__done(struct survey *s);

#endif
