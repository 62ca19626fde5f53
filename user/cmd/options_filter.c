/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The values of the options that say which part of a recording is meant. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/options_table.h"
#include "cmd/values.h"
#include "view/tables/holdings.h"

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
	return err_hint(err, "a time since the recording's begin (12.5s, 300ms), 'step 100', or peak");
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

int is_filtered(const struct options *o)
{
	return o->at.kind || o->from.kind || o->to.kind || o->rank >= 0 || o->module || o->op || o->sort || o->category >= 0 ||
	       (o->dev >= 0 && o->cmd == CMD_REPORT) || o->pids_cnt;
}

/* 0, or -EINVAL: options that do not go together. */
int filter_has_sense(const struct options *o, struct err *err)
{
	const char *given = o->at.kind ? "--at" : o->from.kind ? "--from" : o->to.kind ? "--to" : o->rank >= 0 ? "--rank" :
			    o->module ? "--module" : o->op ? "--op" : o->sort ? "--sort" :
			    o->category >= 0 ? "--category" : o->dev >= 0 ? "--device" : o->pids_cnt ? "--pid" : NULL;
	const char *other = o->tui ? "--tui" : o->flow ? "--flow" : o->leaks ? "--leaks" : o->phase ? "--phase" :
			    o->by == BY_RANK ? "--by rank" : o->by == BY_SYMBOL ? "--by symbol" :
			    o->by == BY_STACK ? "--by stack" : NULL;

	if (o->at.kind && (o->from.kind || o->to.kind)) {
		err_set(err, -EINVAL, "--at is one moment: --from and --to are a stretch of time");
		return err_hint(err, "leave one of the two out");
	}
	if (o->rank >= 0 && o->pids_cnt) {
		err_set(err, -EINVAL, "--rank and --pid both name processes");
		return err_hint(err, "leave one of the two out");
	}
	if (o->cmd != CMD_REPORT || !given || !other)
		return 0;
	err_set(err, -EINVAL, "%s shows what was held at one moment: %s is about another view", given, other);
	return err_hint(err, "--by category, device, module, name, op, process or region");
}
