/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "event/merge.h"
#include "view/text.h"

static void say_file(const struct merge_file_info *f)
{
	uint64_t off = (uint64_t)(f->clock_ns < 0 ? -f->clock_ns : f->clock_ns);
	char safe[TEXT_BYTES_MAX], a[24];

	fprintf(stderr, "%s: machine %u, ", safe_text(safe, f->path), f->machine);
	switch (f->how) {
	case MERGE_FIRST:
		fputs("the clock that is shown", stderr);
		break;
	case MERGE_SAME_BOOT:
		fputs("the same boot as an earlier file, the same clock", stderr);
		break;
	case MERGE_BY_STEPS:
		fprintf(stderr, "its clock is %s %s, by %zu steps", fmt_ns(a, off),
			f->clock_ns < 0 ? "behind" : "ahead", f->steps_common);
		fprintf(stderr, " (%s apart)", fmt_ns(a, f->spread_ns));
		break;
	default:
		fputs("by its wall clock: no steps that it and the first file made together were found", stderr);
	}
	if (f->drift_ppt)
		fprintf(stderr, "; it ran %.1f ppm too %s", (double)(f->drift_ppt < 0 ? -f->drift_ppt : f->drift_ppt) / 1e6,
			f->drift_ppt < 0 ? "slow" : "fast");
	if (f->cut_bytes)
		fprintf(stderr, "; cut or damaged: its last %s could not be read", fmt_bytes(a, f->cut_bytes));
	else if (!f->ended)
		fputs("; its end was not seen", stderr);
	fputc('\n', stderr);
}

static void say_missing(const struct merge_info *info)
{
	if (!info->missing_total)
		return;
	fprintf(stderr, "memtrace: %zu of %lld ranks are in none of the files:", info->missing_total, (long long)info->world);
	for (size_t i = 0; i < info->missing_cnt; i++)
		fprintf(stderr, " %u", info->missing[i]);
	fputs(info->missing_total > info->missing_cnt ? " …\n" : "\n", stderr);
}

int cmd_merge(const struct options *o, struct err *err)
{
	enum merge_align align = o->align_clock ? MERGE_ALIGN_CLOCK : MERGE_ALIGN_STEPS;
	char safe[TEXT_BYTES_MAX], events[24];
	struct merge_info info;
	int r = merge_files(o->files, o->files_cnt, o->out, align, &info, err);

	for (size_t i = 0; !r && !o->quiet && i < info.files_cnt; i++)
		say_file(&info.files[i]);
	if (!r && !o->quiet) {
		say_missing(&info);
		fprintf(stderr, "merged %zu files of %u machine%s into %s: %s events\n", info.files_cnt, info.machines_cnt,
			info.machines_cnt == 1 ? "" : "s", safe_text(safe, o->out), fmt_count(events, (double)info.events));
	}
	merge_info__done(&info);
	return r;
}
