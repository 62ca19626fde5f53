/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Rules about an allocator: what it reserved and never gave out. */

#include "base/text.h"
#include "timeline/report.h"
#include "verdict/rules.h"

#define IDLE_PERCENT 20		  /* of what was reserved at most was never allocated, and … */
#define IDLE_LEAST (64ull << 20)  /* … so many bytes: below, it is how allocators round */
#define DEVICE_PERCENT 5	  /* … and of the device: less does no harm on it */
#define FULL_PERCENT 90		  /* of the device's memory is reserved: idle bytes are missing elsewhere */

#define EXPANDABLE_PAGE (20ull << 20) /* c10's kLargeBuffer: what it maps and unmaps of a segment of large blocks */

/* What the allocator reserved at most and never gave out; a device whose memory is nearly all reserved misses it. */
static void judge_idle(const struct judge *j, const struct report_dev *d)
{
	const struct report_segments *s = &d->segs;
	int of_all = s->counted_allocated_peak > s->allocated_peak; /* from before the attach, too */
	uint64_t used = of_all ? s->counted_allocated_peak : s->allocated_peak;
	uint64_t idle = s->reserved_peak > used ? s->reserved_peak - used : 0;
	int in_pieces = s->inactive >= s->free_cached,
		is_full = s->nvml_total && s->reserved_peak >= s->nvml_total / 100 * FULL_PERCENT;
	struct verdict_line *l;
	char a[24], b[24], dev[16];

	if (!s->totals || idle < IDLE_LEAST || idle < s->reserved_peak / 100 * IDLE_PERCENT)
		return;
	if (!d->ooms && !is_full && idle < s->nvml_total / 100 * DEVICE_PERCENT)
		return;
	l = line(j, in_pieces ? VERDICT_FRAGMENTED : VERDICT_RESERVED, d->ooms || is_full ? VERDICT_PROBLEM : VERDICT_HINT,
		 idle);
	say(l->text, "%s: %s of %s reserved never held a tensor%s", dev_name(d->dev, dev), fmt_bytes(a, idle),
	    fmt_bytes(b, s->reserved_peak), s->reserved_before && !of_all ? " since the attach" : "");
	if (in_pieces)
		say(l->text, "; %s are free now in segments that hold a block, in pieces of %s at most",
		    fmt_bytes(a, s->inactive), fmt_bytes(b, s->largest_free));
	if (d->ooms)
		say(l->text, ", and memory was refused");
	else if (is_full)
		say(l->text, ", and %d %% of the device are reserved", FULL_PERCENT);
	else if (s->nvml_total)
		say(l->text, "; it does not matter as long as nothing else needs the device's %s", fmt_bytes(a, s->nvml_total));
	else
		say(l->text, "; it matters where the device is full");
	if (in_pieces && s->largest_free < EXPANDABLE_PAGE)
		say(l->next, "allocate what lives long before what comes and goes: expandable segments give back whole pages "
		    "of %s, and no piece has one", fmt_bytes(a, EXPANDABLE_PAGE));
	else if (in_pieces && s->backend != BACKEND_EXPANDABLE)
		say(l->next, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, up to %s less reserved", fmt_bytes(a, idle));
	else
		say(l->next, "torch.cuda.empty_cache() behind what needed it once gives back %s now", fmt_bytes(a,
		    s->free_cached));
}

void judge_reserved(const struct judge *j)
{
	const struct report_dev *worst = NULL;

	for (size_t i = 0; i < j->r->devs_cnt; i++) {
		const struct report_dev *d = &j->r->devs[i];

		if (d->segs.totals && (!worst || d->segs.reserved_peak > worst->segs.reserved_peak))
			worst = d;
	}
	if (worst)
		judge_idle(j, worst);
}
