/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The report as Markdown, for a pull request or an issue: the verdict, then the short tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/report.h"
#include "verdict/verdict.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/tables/modules.h"
#include "view/tables/tables.h"
#include "view/tables/verdict.h"
#include "view/view.h"

#define COMMAND_COLS 200

static void put_words(struct page *p, const char *text, unsigned cols)
{
	char safe[TEXT_BYTES_MAX];

	text_cut(safe, sizeof(safe), text ? text : "", cols);
	page__md(p, safe);
}

/* As it is typed; with a backtick in it, between double ones. */
static void put_command(struct page *p, const char *command)
{
	const char *marks = strchr(command, '`') ? "``" : "`";
	char safe[TEXT_BYTES_MAX];

	text_cut(safe, sizeof(safe), command, VERDICT_BYTES);
	if (safe[0])
		page__printf(p, "%s%s%s", marks, safe, marks);
}

static void put_verdict(struct page *p, const struct report *r, const char *path, unsigned max)
{
	static const char *const marks[] = { "", "**Problem:** ", "**Hint:** ", "" };
	char words[VERDICT_BYTES];
	struct verdict v;

	verdict__of(&v, r, path);
	for (size_t i = 0; i < v.cnt && i < max; i++) {
		const struct verdict_line *l = &v.lines[i];

		page__printf(p, "- %s", l->severity == VERDICT_HINT && !l->next[0] ? "**Note:** " : marks[l->severity & 3]);
		put_words(p, l->text, VERDICT_BYTES);
		page__put(p, "\n");
		if (!l->next[0])
			continue;
		page__put(p, "  - next: ");
		snprintf(words, sizeof(words), "%.*s", (int)(verdict_command(l) - l->next), l->next);
		put_words(p, words, VERDICT_BYTES);
		put_command(p, verdict_command(l));
		page__put(p, "\n");
	}
	if (v.cnt > max)
		page__printf(p, "- … and %zu more (-v)\n", v.cnt - max);
}

static void put_head(struct page *p, const struct report *r)
{
	char when[32], took[TRACED_MAX], steps[STEPS_WORDS_MAX];

	size_t jobs = verdict_jobs(r);

	page__put(p, "\n");
	if (jobs < 2)
		put_words(p, r->run.cmdline && r->run.cmdline[0] ? r->run.cmdline : r->run.comm, COMMAND_COLS);
	report_words_steps(steps, r);
	if (r->run.pid && jobs > 1)
		page__printf(p, "%zu jobs, %zu processes", jobs, r->procs_cnt);
	else if (r->run.pid || !r->procs_cnt)
		page__printf(p, "  \nprocess %u", r->run.pid);
	else
		page__printf(p, "All jobs of the machine, %zu process%s", r->procs_cnt, r->procs_cnt == 1 ? "" : "es");
	page__printf(p, ", %s, %s%s%s\n",
		     fmt_time(when, (int64_t)r->run.start_ts_ns + r->run.epoch_off_ns), report_words_traced(took, r),
		     steps[0] ? ", " : "", steps);
}

static void put_cats(struct page *p, const struct report *r)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct cat_row rows[CAT_MAX];
	struct table_lines l;

	if (!report_has_cats(r))
		return;
	table_md__begin(&l, p, &cat_table, &d);
	for (size_t i = 0; i < r->devs_cnt; i++) {
		size_t cnt = cat_rows_of_peak(r, &r->devs[i], rows, 0);

		d.whole = r->devs[i].peak;
		for (size_t k = 0; k < cnt; k++)
			table_md__row(&l, &rows[k]);
	}
	if (report_has_use(r))
		page__printf(p, "\n%s\n", report_words_use);
}

static void put_modules(struct page *p, const struct report *r, size_t top)
{
	size_t cnt;
	const struct report_module **rows = modules_of_peak(r, &cnt);
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;

	d.whole = report_peak_sum(r);
	if (cnt)
		table_md__begin(&l, p, &module_summary_table, &d);
	for (size_t i = 0; i < cnt && i < top; i++)
		table_md__row(&l, rows[i]);
	free(rows);
}

static void put_ops(struct page *p, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;

	if (!r->ops.cnt || !r->ops.rows[0].at_peak)
		return;
	d.whole = report_peak_sum(r);
	table_md__begin(&l, p, &op_table, &d);
	for (size_t i = 0; i < r->ops.cnt && i < top && r->ops.rows[i].at_peak; i++)
		table_md__row(&l, &r->ops.rows[i]);
}

int view_report_md(FILE *out, const struct report *r, const struct view_opts *opts)
{
	struct page p;
	int err = page__init(&p, out, 1u << 20, 0);

	if (err)
		return err;
	put_verdict(&p, r, opts->path, opts->is_verbose ? VERDICT_MAX : VERDICT_SHOWN);
	put_head(&p, r);
	put_cats(&p, r);
	put_modules(&p, r, opts->top);
	put_ops(&p, r, opts->top);
	return page__done(&p);
}
