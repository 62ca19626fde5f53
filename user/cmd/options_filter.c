/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The values of the options that choose a part of a recording. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/options_table.h"
#include "cmd/values.h"
#include "view/tables/holdings.h"
#include "view/view.h"

static int on_when(struct when *w, const char *value, struct err *err)
{
	const char *step = strncmp(value, "step", 4) ? NULL : value + 4;

	w->text = value;
	w->kind = WHEN_PEAK;
	if (!strcmp(value, "peak"))
		return 0;
	w->kind = WHEN_STEP;
	if (step && (*step == ' ' || *step == ':') && !parse_number(step + 1, UINT64_MAX, &w->num, NULL))
		return 0;
	w->kind = WHEN_TIME;
	if (isdigit((unsigned char)value[0]) && !parse_duration(value, &w->num, NULL))
		return 0;
	err_set(err, -EINVAL, "'%.60s' is no moment", value);
	return err_hint(err, "a time since the recording began (12.5s, 300ms), 'step 100', or peak");
}

int on_at(struct options *o, const char *value, struct err *err)
{
	return on_when(&o->at, value, err);
}

int on_from(struct options *o, const char *value, struct err *err)
{
	return on_when(&o->from, value, err);
}

int on_until(struct options *o, const char *value, struct err *err)
{
	return on_when(&o->to, value, err);
}

int on_rank(struct options *o, const char *value, struct err *err)
{
	uint64_t rank;
	int r = parse_number(value, UINT32_MAX, &rank, err);

	if (!r)
		o->rank = (int64_t)rank;
	return r;
}

static int on_pattern(const char **ret, const char *value, const char *what, struct err *err)
{
	if (!*value || strlen(value) > 1000) {
		err_set(err, -EINVAL, "'%.60s' names no %s", value, what);
		return err_hint(err, "a name, or a pattern with * in quotes");
	}
	*ret = value;
	return 0;
}

int on_module(struct options *o, const char *value, struct err *err)
{
	return on_pattern(&o->module, value, "module", err);
}

int on_op(struct options *o, const char *value, struct err *err)
{
	return on_pattern(&o->op, value, "operator", err);
}

int on_sort(struct options *o, const char *value, struct err *err)
{
	const char *all;

	o->sort = value;
	if (held_sort_is_known(value, &all))
		return 0;
	err_set(err, -EINVAL, "unknown column '%.60s'", value);
	return err_hint(err, "one of %s", all);
}

static int is_word_of(const char *words, const char *word)
{
	for (size_t len; *words; words += len + strspn(words + len, ", ")) {
		len = strcspn(words, ",");
		if (len == strlen(word) && !memcmp(words, word, len))
			return 1;
	}
	return 0;
}

/* An order of any format; export_has_order checks whether the chosen format has it. */
int on_export_sort(struct options *o, const char *value, struct err *err)
{
	o->sort = value;
	for (const struct export_format *const *f = export_formats(); *f; f++)
		if ((*f)->sorts && is_word_of((*f)->sorts, value))
			return 0;
	err_set(err, -EINVAL, "unknown order '%.60s'", value);
	return err_hint(err, "jsonl, csv: %s; folded: %s", export_format_find("csv")->sorts,
			export_format_find("folded")->sorts);
}

int is_filtered(const struct options *o)
{
	return o->at.kind || o->from.kind || o->to.kind || o->rank >= 0 || o->module || o->op || o->category >= 0 ||
	       ((o->dev >= 0 || o->sort) && o->cmd == CMD_REPORT) || o->pids_cnt;
}

bool is_of_processes(const struct options *o)
{
	struct options rest = *o;

	rest.rank = -1;
	rest.pids_cnt = 0;
	return o->cmd == CMD_REPORT && (o->rank >= 0 || o->pids_cnt) && !is_filtered(&rest) &&
	       ((!o->has_by && !o->csv) || o->by == BY_SYMBOL || o->phase); /* which no moment has */
}

/* A format whose readers depend on the order of its lines has no other. */
static int export_has_order(const struct options *o, struct err *err)
{
	const struct export_format *f = export_format_find(o->format);

	if (!o->sort)
		return 0;
	if (!f->sorts) {
		err_set(err, -EINVAL, "--sort: what %s writes has an order of its own", f->name);
		return err_hint(err, "jsonl, csv and folded can be sorted; sqlite is asked with ORDER BY");
	}
	if (!is_word_of(f->sorts, o->sort)) {
		err_set(err, -EINVAL, "--sort: %s is not sorted by '%.60s'", f->name, o->sort);
		return err_hint(err, "one of %s", f->sorts);
	}
	if (o->labels_live && !strcmp(o->sort, "name")) {
		err_set(err, -EINVAL, "--sort name: names are known with hindsight alone, not with --labels live");
		return err_hint(err, "leave one of the two out");
	}
	return 0;
}

/* 0, or -EINVAL: options that do not go together. */
int filter_has_sense(const struct options *o, struct err *err)
{
	const char *given = o->at.kind ? "--at" : o->from.kind ? "--from" : o->to.kind ? "--to" : o->rank >= 0 ? "--rank" :
			    o->module ? "--module" : o->op ? "--op" : o->sort ? "--sort" :
			    o->category >= 0 ? "--category" : o->dev >= 0 ? "--device" : o->pids_cnt ? "--pid" : NULL;
	const char *other = o->tui ? "--tui" : o->flow ? "--flow" : o->leaks ? "--leaks" : o->phase ? "--phase" :
			    o->by == BY_SYMBOL ? "--by symbol" : NULL;

	if (o->at.kind && (o->from.kind || o->to.kind)) {
		err_set(err, -EINVAL, "--at is one moment: --from and --to are a stretch of time");
		return err_hint(err, "leave one of the two out");
	}
	if (o->rank >= 0 && o->pids_cnt) {
		err_set(err, -EINVAL, "--rank and --pid both name processes");
		return err_hint(err, "leave one of the two out");
	}
	if (o->cmd == CMD_EXPORT)
		return export_has_order(o, err);
	if (o->cmd != CMD_REPORT || !given || !other || is_of_processes(o))
		return 0;
	err_set(err, -EINVAL, "%s shows what was held at one moment: %s is about another view", given, other);
	return err_hint(err, "--by category, device, module, name, op, process, rank, region or stack");
}
