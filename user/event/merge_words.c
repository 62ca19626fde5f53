/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A line a file; of many a line for each way in which their clocks were aligned, and for each problem. */
#include <stdio.h>
#include <string.h>

#include "event/merge.h"

#define FEW 6
#define NAMED 3
#define TEXT_MAX 420

struct lines {
	const struct merge_info *info;
	int (*say)(void *ctx, const char *line);
	void *ctx;
};

static const char *const how_words[] = { [MERGE_FIRST] = "its clock is the one that is shown",
					 [MERGE_SAME_BOOT] = "the same boot as an earlier file, the same clock",
					 [MERGE_BY_CLOCK] = "by its wall clock: no steps that it and the first file made "
							    "together were found" };

static const char *name_of(const struct merge_file_info *f)
{
	return strrchr(f->path, '/') ? strrchr(f->path, '/') + 1 : f->path;
}

static double seconds(int64_t ns)
{
	return (double)(ns < 0 ? -ns : ns) / 1e9;
}

static double ppm(int64_t ppt)
{
	return (double)(ppt < 0 ? -ppt : ppt) / 1e6;
}

static int is_cut(const struct merge_file_info *f)
{
	return f->cut_bytes != 0;
}

static int has_no_end(const struct merge_file_info *f)
{
	return !f->cut_bytes && !f->ended;
}

static int is_by_clock(const struct merge_file_info *f)
{
	return f->how == MERGE_BY_CLOCK;
}

static int say_file(const struct lines *l, const struct merge_file_info *f)
{
	char text[TEXT_MAX];
	size_t n = (size_t)snprintf(text, sizeof(text), "%.100s: machine %u, ", name_of(f), f->machine);

	if (f->how == MERGE_BY_STEPS)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "its clock was %.6f s %s, by %zu steps (%.3f ms apart)",
				      seconds(f->clock_ns), f->clock_ns < 0 ? "behind" : "ahead", f->steps_common,
				      (double)f->spread_ns / 1e6);
	else
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", how_words[f->how]);
	if (f->drift_ppt)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "; it ran %.1f ppm too %s", ppm(f->drift_ppt),
				      f->drift_ppt < 0 ? "slow" : "fast");
	if (f->cut_bytes)
		snprintf(text + n, sizeof(text) - n, "; cut or damaged: its last %llu bytes could not be read",
			 (unsigned long long)f->cut_bytes);
	else if (!f->ended)
		snprintf(text + n, sizeof(text) - n, "; its end was not seen");
	return l->say(l->ctx, text);
}

/* "3 files WORDS: a.mtr, b.mtr, …" */
static int say_those(const struct lines *l, int (*is_it)(const struct merge_file_info *f), const char *words)
{
	char text[TEXT_MAX], names[TEXT_MAX / 2] = "";
	size_t cnt = 0, n = 0;

	for (size_t i = 0; i < l->info->files_cnt; i++) {
		const struct merge_file_info *f = &l->info->files[i];

		if (!is_it(f))
			continue;
		if (cnt++ < NAMED)
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%.60s", cnt > 1 ? ", " : "", name_of(f));
	}
	snprintf(text, sizeof(text), "%zu file%s %s: %s%s", cnt, cnt == 1 ? "" : "s", words, names, cnt > NAMED ? ", …" : "");
	return cnt ? l->say(l->ctx, text) : 0;
}

static int say_by_steps(const struct lines *l)
{
	const struct merge_file_info *least = NULL, *off = NULL, *fast = NULL, *wide = NULL;
	char text[TEXT_MAX];
	size_t cnt = 0, n;

	for (size_t i = 0; i < l->info->files_cnt; i++) {
		const struct merge_file_info *f = &l->info->files[i];

		if (f->how != MERGE_BY_STEPS)
			continue;
		cnt++;
		least = !least || f->steps_common < least->steps_common ? f : least;
		off = !off || seconds(f->clock_ns) > seconds(off->clock_ns) ? f : off;
		fast = !fast || ppm(f->drift_ppt) > ppm(fast->drift_ppt) ? f : fast;
		wide = !wide || f->spread_ns > wide->spread_ns ? f : wide;
	}
	if (!cnt)
		return 0;
	n = (size_t)snprintf(text, sizeof(text),
			     "%zu file%s by %zu steps or more: clocks up to %.6f s off (%.60s), steps at most %.3f ms apart "
			     "(%.60s)", cnt, cnt == 1 ? "" : "s", least->steps_common, seconds(off->clock_ns), name_of(off),
			     (double)wide->spread_ns / 1e6, name_of(wide));
	if (fast->drift_ppt)
		snprintf(text + n, sizeof(text) - n, ", up to %.1f ppm too %s (%.60s)", ppm(fast->drift_ppt),
			 fast->drift_ppt < 0 ? "slow" : "fast", name_of(fast));
	return l->say(l->ctx, text);
}

static int say_same_boot(const struct lines *l)
{
	char text[TEXT_MAX];
	size_t cnt = 0;

	for (size_t i = 0; i < l->info->files_cnt; i++)
		cnt += l->info->files[i].how == MERGE_SAME_BOOT;
	snprintf(text, sizeof(text), "%zu file%s of the same boot as an earlier one, with its clock", cnt, cnt == 1 ? "" : "s");
	return cnt ? l->say(l->ctx, text) : 0;
}

int merge_info__words(const struct merge_info *info, int each, int (*say)(void *ctx, const char *line), void *ctx)
{
	const struct lines l = { .info = info, .say = say, .ctx = ctx };
	int r = 0;

	for (size_t i = 0; i < info->files_cnt && !r; i++)
		if (each || info->files_cnt <= FEW || info->files[i].how == MERGE_FIRST)
			r = say_file(&l, &info->files[i]);
	if (r || each || info->files_cnt <= FEW)
		return r;
	r = say_same_boot(&l);
	r = r ? r : say_by_steps(&l);
	r = r ? r : say_those(&l, is_by_clock, "by their wall clocks, no steps together with the first one were found");
	r = r ? r : say_those(&l, is_cut, "cut or damaged");
	return r ? r : say_those(&l, has_no_end, "whose end was not seen");
}
