/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Lines on an allocator: what it reserved and never gave out. */

#include "base/text.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"
#include "verdict/say.h"

void say_idle(const struct judge *j, struct verdict_line *l)
{
	const struct facts_idle *f = &j->f->idle;
	const struct report_segments *s = &f->dev->segs;
	char a[24], b[24], dev[16];

	l->bytes = f->bytes;
	say(l->text, "%s: %s of %s reserved never held a tensor%s", dev_name(f->dev->dev, dev), fmt_bytes(a, f->bytes),
	    fmt_bytes(b, s->reserved_peak), s->reserved_before && !f->of_all ? " since the attach" : "");
	if (f->in_pieces)
		say(l->text, "; %s are free now in segments that hold a block, in pieces of %s at most",
		    fmt_bytes(a, s->inactive), fmt_bytes(b, s->largest_free));
	if (f->dev->ooms)
		say(l->text, ", and memory was refused");
	else if (f->is_full)
		say(l->text, ", and %d %% of the device are reserved", FULL_PERCENT);
	else if (s->nvml_total)
		say(l->text, "; it does not matter as long as nothing else needs the device's %s", fmt_bytes(a, s->nvml_total));
	else
		say(l->text, "; it matters where the device is full");
	if (f->in_pieces && s->largest_free < EXPANDABLE_PAGE)
		say(l->next, "allocate what lives long before what comes and goes: expandable segments give back whole pages "
		    "of %s, and no piece has one", fmt_bytes(a, EXPANDABLE_PAGE));
	else if (f->in_pieces && s->backend != BACKEND_EXPANDABLE)
		say(l->next, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, up to %s less reserved", fmt_bytes(a,
		    f->bytes));
	else
		say(l->next, "torch.cuda.empty_cache() behind what needed it once gives back %s now", fmt_bytes(a,
		    s->free_cached));
}
