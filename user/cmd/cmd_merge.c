/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/outfile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "event/merge.h"

static int say_line(void *ctx, const char *line)
{
	char safe[TEXT_BYTES_MAX];

	(void)ctx;
	fprintf(stderr, "%s\n", safe_text(safe, line));
	return 0;
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
	struct outfile_how how = outputs_of(o);
	struct merge_info info;
	int r = merge_files(o->files, o->files_cnt, o->out, &how, align, o->verbose, &info, err);

	if (!r && !o->quiet) {
		(void)merge_info__words(&info, o->verbose, say_line, NULL);
		say_missing(&info);
		fprintf(stderr, "merged %zu files of %u machine%s into %s: %s events\n", info.files_cnt, info.machines_cnt,
			info.machines_cnt == 1 ? "" : "s", safe_text(safe, o->out), fmt_count(events, (double)info.events));
	}
	merge_info__done(&info);
	return r;
}
