/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Asks all rules (rules.c), one after the other, and puts what is wrong first. */
#include "verdict/verdict.h"

#include <string.h>

#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"
#include "verdict/say.h"

/* What is wrong first, then what can be won; what is alike stays in the order of the rules. */
static void by_severity(struct verdict *v)
{
	for (size_t i = 1; i < v->cnt; i++)
		for (size_t k = i; k && v->lines[k].severity < v->lines[k - 1].severity; k--) {
			struct verdict_line swap = v->lines[k];

			v->lines[k] = v->lines[k - 1];
			v->lines[k - 1] = swap;
		}
}

void verdict__of(struct verdict *v, const struct report *r, const char *file)
{
	struct facts f = facts_of(r);
	const char *whole = file ? file : "FILE";
	char part[3 * TEXT_BYTES_MAX];
	const struct judge j = { r, &f, r->run.choice ? part : whole, whole, file != NULL };

	snprintf(part, sizeof(part), "%s %s", whole, r->run.choice ? r->run.choice : "");
	v->cnt = 0;
	for (size_t i = 0; i < rules_cnt && v->cnt < VERDICT_MAX; i++) {
		enum verdict_severity severity = rules[i].when(&j);
		struct verdict_line *l = &v->lines[v->cnt];

		if (!severity)
			continue;
		*l = (struct verdict_line){ .kind = (uint8_t)rules[i].kind, .severity = (uint8_t)severity };
		rules[i].say(&j, l);
		v->cnt++;
	}
	by_severity(v);
}

size_t verdict_jobs(const struct report *r)
{
	return facts_of_jobs(r, facts_device(r)).cnt;
}

size_t verdict_jobs_on(const struct report *r, const struct report_dev *d)
{
	return facts_of_jobs(r, d).on_device;
}

const char *verdict_command(const struct verdict_line *l)
{
	return l->next + strlen(l->next) - l->command_len;
}

const char *verdict_kind_name(unsigned kind)
{
	static const char *const names[VERDICT_KINDS] = {
		[VERDICT_OUT_OF_MEMORY] = "out_of_memory", [VERDICT_DIED] = "died", [VERDICT_LEAK] = "leak",
		[VERDICT_RANK] = "rank", [VERDICT_FRAGMENTED] = "fragmented", [VERDICT_RESERVED] = "reserved",
		[VERDICT_WORKERS] = "workers", [VERDICT_SPIKE] = "spike", [VERDICT_ACTIVATIONS] = "activations",
		[VERDICT_STATE] = "state", [VERDICT_PEAK] = "peak", [VERDICT_NOTHING] = "nothing",
		[VERDICT_GROWTH] = "growth", [VERDICT_INCOMPLETE] = "incomplete", [VERDICT_COMPLETE] = "complete",
		[VERDICT_RECOMPILES] = "recompiles",
		[VERDICT_RSS] = "rss",
	};

	return kind < VERDICT_KINDS && names[kind] ? names[kind] : "?";
}

const char *verdict_severity_name(unsigned severity)
{
	return severity == VERDICT_PROBLEM ? "problem" : severity == VERDICT_HINT ? "hint" : "fact";
}
