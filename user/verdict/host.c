/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Rules about the machine's memory: what the kernel says of processes against what lives in them. */
#include <inttypes.h>

#include "base/text.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"

/* --- holes ----------------------------------------------------------------------------------------------- */

#define HOLES_PERCENT 30	   /* of a process's anonymous memory holds nothing, half of the time since the peak, and … */
#define HOLES_LEAST (256ull << 20) /* … so many bytes: less is what libraries have of their own */
#define HOLES_BESIDE 10		   /* a GPU's peak is so many times as high: that is the answer, and this a fact */

/*
 * Memory that was freed and stayed with the C library. It could give back whole pages; what the next step needs again is no
 * waste, so it is what nothing has used for many steps.
 */
static void judge_holes(const struct judge *j, enum verdict_severity severity)
{
	struct facts_holes f = facts_of_holes(j->r);
	enum verdict_severity is = VERDICT_HINT;
	struct verdict_line *l;
	char a[24], b[24], c[24], d[24];

	if (f.idle < HOLES_LEAST || f.idle < f.held / 100 * HOLES_PERCENT)
		return;
	for (size_t i = 0; i < j->r->devs_cnt; i++)
		if (j->r->devs[i].dev >= MT_DEV_CUDA0 && j->r->devs[i].peak / HOLES_BESIDE >= f.idle)
			is = VERDICT_FACT;
	if (is != severity)
		return;
	l = line(j, VERDICT_FRAGMENTED, severity, f.idle);
	say(l->text, "The process keeps %s of memory, and in the last %s its %s had %s of that at most", fmt_bytes(a, f.held),
	    fmt_ns(d, f.span_ns), f.is_host ? "blocks of malloc" : "tensors", fmt_bytes(b, f.live));
	say(l->text, ": %s was freed and stayed with the allocator, in holes between what lives (at its peak %s were live)",
	    fmt_bytes(a, f.idle), fmt_bytes(c, f.peak));
	say(l->next, "ctypes.CDLL(None).malloc_trim(0) behind what needed it gives up to %s back to the machine; so does "
	    "jemalloc by itself (LD_PRELOAD=libjemalloc.so.2)", fmt_bytes(a, f.idle));
}

/* --- DataLoader's workers -------------------------------------------------------------------------------- */

#define WORKERS_PERCENT 25	    /* of the memory of all processes is the workers' own, and … */
#define WORKERS_LEAST (64ull << 20) /* … so many bytes; or it has grown by so many */

/* What was shared and is no more, page by page: each write to it, and each count of references, is one to a page of its own. */
static void say_growth(struct verdict_line *l, const struct facts_workers *f)
{
	char a[24], b[24], c[24], d[24];

	say(l->text, "; it grows by %s a second (%s to %s in %s)",
	    fmt_bytes(a, (uint64_t)((double)f->grown / ((double)f->span_ns / 1e9))), fmt_bytes(b, f->own - f->grown),
	    fmt_bytes(c, f->own), fmt_ns(d, f->span_ns));
	if (f->unshared >= f->grown / 2)
		say(l->text, ", by copy-on-write: %s that they shared with their parent is copied now",
		    fmt_bytes(a, f->unshared));
	else
		say(l->text, ", by what they allocate themselves: no more than %s was shared before",
		    fmt_bytes(a, f->unshared));
}

static void judge_workers(const struct judge *j)
{
	struct facts_workers f = facts_of_workers(j->r);
	struct verdict_line *l;
	char a[24], b[24], c[24];

	if (!f.cnt || ((f.own < WORKERS_LEAST || f.own < f.all / 100 * WORKERS_PERCENT) && f.grown < WORKERS_LEAST))
		return;
	l = line(j, VERDICT_WORKERS, VERDICT_HINT, f.own);
	say(l->text, "%zu DataLoader worker%s hold %s of their own, %s each at most, of %s of all processes", f.cnt,
	    f.cnt == 1 ? "" : "s", fmt_bytes(a, f.own), fmt_bytes(b, f.largest), fmt_bytes(c, f.all));
	if (f.grown >= WORKERS_LEAST)
		say_growth(l, &f);
	else
		say(l->text, ": what they share with their parent is copied where they write to it or count references");
	say(l->next, "keep the dataset in tensors or NumPy arrays, not in lists of Python objects; half the num_workers "
	    "saves %s", fmt_bytes(a, f.own / 2));
}

void judge_host(const struct judge *j)
{
	judge_holes(j, VERDICT_HINT);
	judge_workers(j);
}

void judge_host_beside(const struct judge *j)
{
	judge_holes(j, VERDICT_FACT);
}
