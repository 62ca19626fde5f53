/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What torch.compile has compiled, and again (docs/compiled.md). */
#ifndef MT_TIMELINE_REPORT_COMPILES_H
#define MT_TIMELINE_REPORT_COMPILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A recompile. */
struct report_recompile {
	uint64_t ts_ns, ns;   /* when it began, how long it took: with its backward, which may be compiled later */
	uint64_t own_ns;      /* without that */
	uint64_t step;	      /* that was under way; 0: not known */
	uint64_t live, added; /* of its process: live bytes then, and how many more there were meanwhile at most … */
	uint32_t pid;
	uint8_t knows_bytes;  /* … if that is known */
	uint8_t before;	      /* it was before the trace */
	char *id;	      /* "0/1": frame 0, compiled once before */
	char *function;	      /* "forward (train.py:6)"; "" not known */
	char *reason;	      /* "" not known */
	char *failed;	      /* why it made no code: from then on the call is eager; "": it did */
};

/* Recompiles of a function for the same reason, but for numbers in it. */
struct report_recompile_why {
	uint64_t cnt, ns, added; /* ns: together, added: the most; of those of the trace */
	const struct report_recompile *last; /* one of the rows */
	uint8_t varies; /* others had other numbers in their reason */
};

struct report_compiles {
	uint64_t cnt, cnt_before; /* compilations of functions; of them, from before the trace */
	uint64_t ns;	      /* and of backwards with them; of the trace */
	uint64_t again, again_ns, added; /* recompiles of the trace, their time together; the most that one added */
	uint64_t again_before;	/* recompiles from before */
	uint64_t missed;	/* that were over before they could be read */
	struct report_recompile *rows; /* the last ones (512 compilations are kept), in order */
	size_t rows_cnt;
	struct report_recompile_why *whys; /* by cnt, then by ns */
	size_t whys_cnt;
};

#define RECOMPILE_REASON_BYTES 512
/*
 * Dynamo's guard that did not hold, and where in the source it comes from: "self.k == 7 (train.py:5 in forward)" of
 * "self.k == 7  # if self.k == 0:  # src/train.py:5 in forward (HINT: …)", as torch/_dynamo/guards.py of 2.4 to 2.15 writes
 * them. Safe, in at most `cols`.
 */
const char *recompile_reason(char buf[RECOMPILE_REASON_BYTES], const char *reason, unsigned cols);
/* Of one function, and for one reason but for numbers in it. */
bool recompile_is_alike(const struct report_recompile *a, const struct report_recompile *b);
/* It was compiled as often as torch.compile does at most (torch._dynamo.config.recompile_limit). */
int recompile_gave_up(const struct report_recompile *k);

#endif
