/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Lines on the machine's memory: the kernel's numbers of processes against the blocks live in them. */
#include <inttypes.h>

#include "base/text.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"
#include "verdict/say.h"

/* --- holes ----------------------------------------------------------------------------------------------- */

/*
 * Memory that was freed and stayed with the C library. It could give back whole pages; what the next step needs again is no
 * waste, so only memory that nothing has used for many steps counts.
 */
void say_holes(const struct judge *j, struct verdict_line *l)
{
	const struct facts_holes f = j->f->holes;
	char a[24], b[24], c[24], d[24];

	l->bytes = f.idle;
	say(l->text, "The process keeps %s of memory, and in the last %s its %s had %s of that at most", fmt_bytes(a, f.held),
	    fmt_ns(d, f.span_ns), f.is_host ? "blocks of malloc" : "tensors", fmt_bytes(b, f.live));
	say(l->text, ": %s was freed and stayed with the allocator, in holes between what lives (at its peak %s were live)",
	    fmt_bytes(a, f.idle), fmt_bytes(c, f.peak));
	say(l->next, "ctypes.CDLL(None).malloc_trim(0) behind what needed it gives up to %s back to the machine; so does "
	    "jemalloc by itself (LD_PRELOAD=libjemalloc.so.2)", fmt_bytes(a, f.idle));
}

/* --- DataLoader's workers -------------------------------------------------------------------------------- */

/* Memory that is no longer shared, page by page: each write to it, also of a reference count, copies its page. */
static void say_copies(struct verdict_line *l, const struct facts_workers *f)
{
	char a[24], b[24], c[24], d[24];

	say(l->text, "; it grows by %s a second (%s to %s in %s)",
	    fmt_bytes(a, (uint64_t)((double)f->grown / ((double)f->span_ns / 1e9))), fmt_bytes(b, f->own - f->grown),
	    fmt_bytes(c, f->own), fmt_ns(d, f->span_ns));
	if (f->unshared >= f->grown / COPIED_PART)
		say(l->text, ", by copy-on-write: %s that they shared with their parent is copied now",
		    fmt_bytes(a, f->unshared));
	else
		say(l->text, ", by what they allocate themselves: no more than %s was shared before",
		    fmt_bytes(a, f->unshared));
}

void say_workers(const struct judge *j, struct verdict_line *l)
{
	const struct facts_workers f = j->f->workers;
	char a[24], b[24], c[24], parent[32] = "";

	l->bytes = f.own;
	if (f.proc)
		snprintf(parent, sizeof(parent), " of process %u", f.proc->ppid);
	say(l->text, "%zu DataLoader worker%s%s hold%s %s of %s own, %s each at most, of %s of all processes%s", f.cnt,
	    f.cnt == 1 ? "" : "s", parent, f.cnt == 1 ? "s" : "", fmt_bytes(a, f.own),
	    f.cnt == 1 ? "its" : "their", fmt_bytes(b, f.largest), fmt_bytes(c, f.all),
	    f.proc ? " of its job" : "");
	if (f.grown >= WORKERS_LEAST)
		say_copies(l, &f);
	else
		say(l->text, ": what they share with their parent is copied where they write to it or count references");
	say(l->next, "keep the dataset in tensors or NumPy arrays, not in lists of Python objects; half the num_workers "
	    "saves %s", fmt_bytes(a, f.own / 2));
}

/* --- memory that is in no tensor --------------------------------------------------------------------------- */

/* With malloc's blocks: how much is in them, and the table by what made them. */
static void say_malloc(const struct judge *j, struct verdict_line *l, const struct facts_beside *f)
{
	int is_theirs = f->of_malloc >= f->bytes / BESIDE_MALLOC_PART;
	char a[24];

	say(l->text, is_theirs ? ": %s of it in blocks of malloc" : ": no more than %s of it in blocks of malloc",
	    fmt_bytes(a, f->of_malloc < f->bytes ? f->of_malloc : f->bytes));
	if (!is_theirs) {
		say(l->next, "Python's objects of up to 512 bytes are in no block of malloc; in a job started with "
		    "PYTHONMALLOC=malloc they are");
		return;
	}
	say(l->next, "what made most of them: ");
	say_report(j, l, "--at peak --device host --by %s", j->r->stacks.cnt ? "stack" : "op");
}

void say_beside(const struct judge *j, struct verdict_line *l)
{
	const struct facts_beside f = j->f->beside;
	char a[24], b[24], c[24];

	l->bytes = f.bytes;
	say(l->text, "%s of the %s of memory that ", fmt_bytes(a, f.bytes), fmt_bytes(b, f.held));
	if (f.pid)
		say(l->text, "process %u", f.pid);
	else
		say(l->text, "the job");
	say(l->text, " holds (RSS, without files) are in no tensor%s (tensors have %s at most)",
	    f.is_attached ? " that was seen since the attach" : "", fmt_bytes(c, f.tensors));
	if (facts_is_malloc_watched(j->r)) {
		say_malloc(j, l, &f);
		return;
	}
	say(l->text, ": arrays of NumPy, Python's objects and what libraries keep are not traced by default");
	say(l->next, "which lines hold it: ");
	say_command(l, "memtrace record --probes kernel,host --stacks=python -o host.mtr -- COMMAND");
}
