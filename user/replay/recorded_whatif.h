/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* recorded_whatif: estimate of a recording under another batch, optimizer or dtype (user/estimate/whatif.h). */
#ifndef MT_REPLAY_RECORDED_WHATIF_H
#define MT_REPLAY_RECORDED_WHATIF_H

#include "estimate/whatif.h"

#define WHATIF_PATTERNS_BYTES 4096 /* longer ones are taken as they are typed */

struct err;
struct estimate_input;

struct recorded_whatif {
	struct whatif_opts opts; /* with the recordings, and patterns as paths of modules */
	struct whatif result;
	char units[WHATIF_PATTERNS_BYTES], checkpoint[WHATIF_PATTERNS_BYTES];
};

/*
 * asked: all but the recordings, which are a and b, after estimate_input__keep(); b may be a. The result is good as long as
 * they are. 0, or -errno: there is none; recorded_whatif__done() in both cases.
 */
int recorded_whatif__run(struct recorded_whatif *w, const struct whatif_opts *asked, struct estimate_input *a,
			 struct estimate_input *b, struct err *err);
void recorded_whatif__done(struct recorded_whatif *w);

#endif
