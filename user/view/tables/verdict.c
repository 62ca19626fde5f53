/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/verdict.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "timeline/report.h"
#include "verdict/verdict.h"
#include "view/json.h"
#include "view/page.h"

#define NEXT_COLS 8

/* A command can be copied in one piece: it is a line of its own where it does not fit behind the words, however long. */
static void put_next(struct page *p, const struct verdict_line *l)
{
	const char *command = verdict_command(l);
	char words[VERDICT_BYTES];

	page__put(p, "  next: ");
	if (!command[0] || text_cols(l->next) + NEXT_COLS <= p->width) {
		page__flow(p, NEXT_COLS, l->next);
		return;
	}
	snprintf(words, sizeof(words), "%.*s", (int)(command - l->next), l->next);
	if (words[0]) {
		page__flow(p, NEXT_COLS, words);
		page__printf(p, "%*s", NEXT_COLS, "");
	}
	page__line(p, "%s", command);
}

static void put_line(struct page *p, const struct verdict_line *l)
{
	page__style(p, l->severity == VERDICT_PROBLEM ? STYLE_RED : l->severity == VERDICT_HINT ? STYLE_BOLD : STYLE_PLAIN);
	page__flow(p, 2, l->text);
	page__style(p, STYLE_PLAIN);
	if (l->next[0])
		put_next(p, l);
}

void verdict_text(struct page *p, const struct report *r, const char *path, unsigned max)
{
	struct verdict v;

	verdict__of(&v, r, path);
	for (size_t i = 0; i < v.cnt && i < max; i++)
		put_line(p, &v.lines[i]);
	page__more(p, max, v.cnt, "(-v)");
}

void verdict_json(struct json *j, const struct report *r)
{
	struct verdict v;

	verdict__of(&v, r, r->run.is_live ? NULL : "FILE"); /* the reader knows the name */
	json__begin(j, "verdict", '[');
	for (size_t i = 0; i < v.cnt; i++) {
		const struct verdict_line *l = &v.lines[i];

		json__begin_flat(j, NULL, '{');
		json__str(j, "kind", verdict_kind_name(l->kind));
		json__str(j, "severity", verdict_severity_name(l->severity));
		json__str(j, "text", l->text);
		json__u64(j, "bytes", l->bytes);
		json__str(j, "next", l->next);
		json__str(j, "command", verdict_command(l));
		json__end(j, '}');
	}
	json__end(j, ']');
}

void whose_json(struct json *j, const struct report *r, size_t jobs)
{
	if (r->run.choice)
		json__str(j, "choice", r->run.choice);
	if (jobs > 1)
		json__u64(j, "jobs", jobs);
}

const char *jobs_words(const struct report *r, const struct report_dev *d, const char *path, char buf[JOBS_WORDS_BYTES])
{
	size_t jobs = verdict_jobs_on(r, d);
	char safe[TEXT_BYTES_MAX];

	buf[0] = '\0';
	text_fit(safe, sizeof(safe), path, 100);
	if (jobs > 1)
		snprintf(buf, JOBS_WORDS_BYTES,
			 "%zu jobs had that together: --pid or --rank chooses one (memtrace report %.200s "
			 "--by process lists them)",
			 jobs, safe);
	return buf;
}
