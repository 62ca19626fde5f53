/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/err.h"
#include "base/names.h"
#include "cmd/cmd.h"
#include "cmd/kernel_version.h"
#include "keeper/keeper.h"
#include "plan/plan.h"
#include "target/target.h"
#include "trace/trace.h"
#include "view/json.h"
#include "view/tables/plan.h"

/* classes: NULL: not known here. */
static int plan_one(const struct options *o, const struct insn_classes *classes, struct target *t, struct json *j,
		    struct err *err)
{
	struct plan_opts po = { .sources = o->sources, .usdt = o->usdt, .usdt_cnt = o->usdt_cnt, .classes = classes };
	struct plan_view_opts vo = {
		.pid = (uint32_t)target__pid(t),
		.comm = target__comm(t),
		.has_multi = !o->force_perf && kernel_at_least(6, 6),
		.all = o->all || !isatty(STDOUT_FILENO),
		.view = view_opts_of(o),
	};
	struct names *names = names__new();
	struct plan *p = NULL;
	int r;

	if (!names)
		return err_set(err, -ENOMEM, "out of memory");
	r = plan__build(&p, t, &po, names, err);
	if (!r && j) {
		view_plan_json(j, p, names, &vo);
	} else if (!r) {
		r = view_plan_text(stdout, p, names, &vo);
		if (r < 0)
			err_set(err, r, "writing the plan: %s", strerror(-r));
	}
	plan__free(p);
	names__free(names);
	return r;
}

static int plan_all(const struct options *o, struct json *j, struct err *err)
{
	struct insn_classes classes;
	int is_tried = !rights_missing() && !trace_insn_classes(&classes, NULL), r = 0;

	for (size_t i = 0; i < o->pids_cnt && !r; i++) {
		struct target *t = NULL;

		r = target__open(&t, o->pids[i], err);
		if (!r)
			r = plan_one(o, is_tried ? &classes : NULL, t, j, err);
		target__free(t);
	}
	return r;
}

static int plan_and_write(const struct options *o, struct err *err)
{
	struct outbuf out;
	struct json j;
	int r, w;

	if (!o->json)
		return plan_all(o, NULL, err);
	if (json__begin_doc(&j, &out, stdout))
		return err_set(err, -ENOMEM, "out of memory");
	json__begin(&j, "processes", '[');
	r = plan_all(o, &j, err);
	json__end(&j, ']');
	json__end(&j, '}');
	/* After a failure nothing is written: half an object is not JSON. */
	w = r ? 0 : outbuf__flush(&out);
	outbuf__done(&out);
	return w < 0 ? err_set(err, w, "writing the plan: %s", strerror(-w)) : r;
}

/* Planning reads the target's files, without rights. */
int cmd_plan(const struct options *o, struct err *err)
{
	struct keeper *k = NULL;
	struct asker as;
	int r;

	asker__find(&as);
	r = keeper__start(&k, &(struct keeper_opts){ .as = &as, .wards = { .pids = o->pids, .pids_cnt = o->pids_cnt } }, err);
	if (!r)
		r = plan_and_write(o, err);
	keeper__free(k);
	return r;
}
