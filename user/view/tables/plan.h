/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* plan_view: a plan for people and as JSON: the sites to probe, how, and at what cost. */
#ifndef MT_VIEW_TABLES_PLAN_H
#define MT_VIEW_TABLES_PLAN_H

#include <stdint.h>

#include "view/view.h"

struct names;
struct plan;
struct json;

struct plan_view_opts {
	uint32_t pid;
	const char *comm; /* of the target: escaped here */
	int has_multi;	  /* the kernel has uprobe_multi */
	int all;	  /* every site; else a summary and the first few */
	struct view_opts view;
};

int view_plan_text(FILE *out, const struct plan *p, const struct names *names, const struct plan_view_opts *opts);
/* One element of an array of processes. */
void view_plan_json(struct json *j, const struct plan *p, const struct names *names,
		    const struct plan_view_opts *opts);

#endif
