/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/recorded_whatif.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "event/event.h"
#include "event/rank_label.h"
#include "replay/estimate_input.h"
#include "timeline/report.h"

static int refused(const struct whatif_opts *asked, const struct estimate_input *a, const struct estimate_input *b, int r,
		   struct err *err)
{
	switch (r) {
	case -EINVAL:
		err_set(err, r, "hardly a block of %s has its like in %s", a->path, b->path);
		return err_hint(err, "both must be recordings of the same job, each of several steps");
	case -ENODATA:
		err_set(err, r, "%s: no parameter is known in its last step", a->path);
		return err_hint(err, "record with names (--no-names is off) and for some steps");
	case -ESRCH:
		err_set(err, r, "no module like '%.100s' has a forward and a backward in the last step of process %u",
			asked->checkpoint, a->kept.pid);
		if (b->report->flow.has_compiled)
			return err_hint(err, "in what torch.compile made one piece of, no module runs: compile its modules "
					"one by one (module.compile()), or record with TORCHDYNAMO_DISABLE=1 "
					"(docs/compiled.md)");
		return err_hint(err, "memtrace report %s --by module has the paths, quote the pattern; modules have names "
				"some seconds after the attach: record for longer", a->path);
	case -ENOENT:
		err_set(err, r, "no parameter is in a module like '%.100s'", asked->units);
		return err_hint(err, "memtrace report %s --by module has the paths; quote the pattern", a->path);
	default:
		return err_set(err, r, "what if: %s", strerror(-r));
	}
}

/* Of the process whose step it is; 1: unknown. */
static int64_t world_size(const struct estimate_input *a)
{
	const struct report *rep = a->report;
	int64_t n = 1;

	for (size_t i = 0; i < rep->procs_cnt; i++)
		if (rep->procs[i].pid == a->kept.pid) {
			struct rank_label label = report_proc_label(&rep->procs[i]);

			n = rank_label__num(&label, RANK_WORLD);
		}
	return n < 1 ? 1 : n;
}

/* Modules are printed with their root's label in front, "Net.layers.0"; their paths are without. */
static const char *behind_root(const char *pattern, const struct report *r)
{
	const char *ret = pattern;

	for (size_t i = 0; i < r->modules.cnt; i++) {
		const struct report_module *m = &r->modules.rows[i];
		size_t len = m->root ? strlen(m->root) : 0;

		if (len && !strncmp(pattern, m->root, len) && pattern[len] == '.')
			ret = pattern + len + 1;
		if (m->name && len && !strncmp(m->name, m->root, len) && m->name[len] == '.')
			return pattern; /* a part of it has this name, too */
	}
	return ret;
}

static const char *paths_of(char buf[WHATIF_PATTERNS_BYTES], const char *patterns, const struct report *r)
{
	char *out = buf;

	if (!patterns || strlen(patterns) >= WHATIF_PATTERNS_BYTES)
		return patterns;
	while (*patterns) {
		const char *one = behind_root(patterns, r);
		size_t len = strcspn(one, ",");

		len += one[len] == ',';
		memcpy(out, one, len);
		out += len;
		patterns = one + len;
	}
	*out = '\0';
	return buf;
}

int recorded_whatif__run(struct recorded_whatif *w, const struct whatif_opts *asked, struct estimate_input *a,
			 struct estimate_input *b, struct err *err)
{
	int64_t world = asked->ranks ? world_size(a) : 1;
	int r;

	*w = (struct recorded_whatif){ .opts = *asked };
	(void)recorded_kept__last_step(&a->kept, &a->recorded); /* without one: the step of the peak */
	if (b != a)
		(void)recorded_kept__last_step(&b->kept, &b->recorded);
	w->opts.a = &a->recorded;
	w->opts.a_kept = &a->kept;
	w->opts.b = &b->recorded;
	w->opts.b_kept = &b->kept;
	w->opts.is_cpu = a->kept.dev < MT_DEV_CUDA0;
	w->opts.units = paths_of(w->units, asked->units, b->report);
	w->opts.checkpoint = paths_of(w->checkpoint, asked->checkpoint, b->report);
	if (world > 1) {
		err_set(err, -ENOTSUP, "%s: process %u is one of %lld ranks already: what it shares with them is not known",
			a->path, a->kept.pid, (long long)world);
		return err_hint(err, "--shard begins with the whole model: record it in one process, with a rank's batch");
	}
	r = whatif__run(&w->result, &w->opts);
	return r ? refused(asked, a, b, r, err) : 0;
}

void recorded_whatif__done(struct recorded_whatif *w)
{
	whatif__done(&w->result);
}
