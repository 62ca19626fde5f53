/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Names belong to a reader: the second recording is replayed at the first one's end, and the answer written at its own. */
#include "cmd/what_if.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "estimate/whatif.h"
#include "event/event.h"
#include "event/rank_label.h"
#include "replay/chosen.h"
#include "replay/replay.h"
#include "timeline/report.h"
#include "view/tables/whatif.h"

struct side {
	const struct options *o;
	struct err *err;
	const char *path;
	struct chosen chosen;
	struct recorded recorded;
	struct recorded_kept kept;
	struct side *other; /* the first one; NULL: this is it */
};

/* The device that --device asks for, or the recording's own: 0 or -ENODATA with a message. */
static int estimate_dev(const struct options *o, const struct recorded *r, uint8_t *ret, struct err *err)
{
	char name[16];

	*ret = recorded__dev(r);
	for (unsigned dev = 1; o->count && dev < RECORDED_DEVS; dev++)
		if (r->devs[dev].peak && !strcmp(o->count, dev_name((uint8_t)dev, name))) {
			*ret = (uint8_t)dev;
			return 0;
		}
	if (!o->count && *ret)
		return 0;
	err_set(err, -ENODATA, o->count ? "no tensor was on '%.60s'" : "no tensor was recorded", o->count);
	return err_hint(err, *ret ? "there were on %s" : "record while the job works on tensors", dev_name(*ret, name));
}

void recorded_as_reported(struct recorded *r, const struct report *rep)
{
	recorded__began(r, rep->run.start_ts_ns);
	for (size_t i = 0; i < rep->devs_cnt; i++)
		recorded__peak_was(r, rep->devs[i].dev, rep->devs[i].peak, rep->devs[i].peak_ts_ns);
}

int estimate_kept(const struct options *o, const char *path, struct recorded *r, const char *unknown, struct recorded_kept *ret,
		  struct err *err)
{
	uint8_t dev = 0;
	int res;

	recorded__end(r);
	res = estimate_dev(o, r, &dev, err);
	if (res < 0)
		return res;
	if (!r->nodes) {
		err_set(err, -ENODATA, "%s has no data flow: %s are not known", path, unknown);
		return err_hint(err, "record with the source flow, which is a default");
	}
	return recorded_kept__init(ret, r, dev) < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}

#define PATTERNS_BYTES 4096 /* longer ones are taken as they are typed */

int is_what_if(const struct options *o)
{
	return o->batches[0] || o->optimizer || o->dtype > 0 || o->ranks || o->checkpoint;
}

static int side_begin(void *ctx, const struct names *names)
{
	((struct side *)ctx)->recorded.names = names;
	return 0;
}

static int side_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)epoch_off_ns;
	return recorded__event(&((struct side *)ctx)->recorded, ev);
}

static int refused(const struct side *a, const struct report *rep, int r)
{
	const struct options *o = a->o;

	switch (r) {
	case -EINVAL:
		err_set(a->err, r, "no block of %s has its like in %s", o->file, o->file_b);
		return err_hint(a->err, "both must be recordings of the same job, each of several steps");
	case -ENODATA:
		err_set(a->err, r, "%s: no parameter is known in its last step", o->file);
		return err_hint(a->err, "record with names (--no-names is off) and for some steps");
	case -ESRCH:
		err_set(a->err, r, "no module like '%.100s' has a forward and a backward in the last step of process %u",
			o->checkpoint, a->kept.pid);
		if (rep->flow.has_compiled)
			return err_hint(a->err, "in what torch.compile made one piece of, no module runs: compile its modules "
					"one by one (module.compile()), or record with TORCHDYNAMO_DISABLE=1 "
					"(docs/compiled.md)");
		return err_hint(a->err, "memtrace report %s --by module has the paths, quote the pattern; modules have names "
				"some seconds after the attach: record for longer", o->file);
	case -ENOENT:
		err_set(a->err, r, "no parameter is in a module like '%.100s'", o->units);
		return err_hint(a->err, "memtrace report %s --by module has the paths; quote the pattern", o->file);
	default:
		return err_set(a->err, r, "what if: %s", strerror(-r));
	}
}

/* Of the process whose step it is; 1: unknown. */
static int64_t world_size(const struct side *a, const struct report *rep)
{
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

static const char *paths_of(char buf[PATTERNS_BYTES], const char *patterns, const struct report *r)
{
	char *out = buf;

	if (!patterns || strlen(patterns) >= PATTERNS_BYTES)
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

static int answer(struct side *a, struct side *b, const struct report *rep)
{
	const struct options *o = a->o;
	char units[PATTERNS_BYTES], checkpoint[PATTERNS_BYTES];
	struct whatif_opts wo = { .a = &a->recorded, .a_kept = &a->kept, .b = &b->recorded, .b_kept = &b->kept,
				  .batch_a = o->batches[0], .batch_b = o->batches[1], .batch = o->batch,
				  .optimizer = (enum whatif_optimizer)o->optimizer, .dtype = o->dtype, .budget = o->budget,
				  .ranks = (uint32_t)o->ranks, .units = paths_of(units, o->units, rep),
				  .no_reshard = o->no_reshard,
				  .is_cpu = a->kept.dev < MT_DEV_CUDA0,
				  .checkpoint = paths_of(checkpoint, o->checkpoint, rep) };
	struct whatif_view v = { .path = o->file, .opts = &wo, .optimizer = o->optimizer_name, .report = rep,
				 .lost = report_lost_events(rep), .probe_share = chosen__cost(&b->chosen, rep)->share };
	struct view_opts vo = view_opts_of(o);
	int64_t world = o->ranks ? world_size(a, rep) : 1;
	struct whatif w;
	int r;

	if (world > 1) {
		err_set(a->err, -ENOTSUP, "%s: process %u is one of %lld ranks already: what it shares with them is not known",
			o->file, a->kept.pid, (long long)world);
		return err_hint(a->err, "--shard begins with the whole model: record it in one process, with a rank's batch");
	}
	r = whatif__run(&w, &wo);
	v.w = &w;
	if (!r) {
		r = o->json ? whatif_view_json(stdout, &v) : whatif_view_text(stdout, &v, &vo);
		r = r < 0 ? err_set(a->err, r, "writing: %s", strerror(-r)) : 0;
	} else {
		r = refused(a, rep, r);
	}
	whatif__done(&w);
	return r;
}

static int side__read(struct side *s);

static int side_end(void *ctx, const struct report *rep, int r)
{
	struct side *s = ctx, second;

	if (r < 0)
		return r;
	r = refuse_gaps(rep, s->path, s->err);
	if (r < 0)
		return r;
	recorded_as_reported(&s->recorded, rep);
	r = estimate_kept(s->o, s->path, &s->recorded, "categories", &s->kept, s->err);
	if (!r)
		(void)recorded_kept__last_step(&s->kept, &s->recorded); /* without one: the step of the peak */
	if (r < 0)
		return r;
	if (s->other || !s->o->file_b)
		return answer(s->other ? s->other : s, s, rep);
	second = (struct side){ .o = s->o, .err = s->err, .path = s->o->file_b, .other = s };
	return side__read(&second);
}

static int side__read(struct side *s)
{
	struct replay_opts ro = { .top = 1, .begin = side_begin, .event = side_event, .end = side_end, .with_ops = 1,
				  .with_nodes = 1, .ctx = s };
	struct report *rep = NULL;
	struct replay_end end = { 0 };
	struct options one = s->other ? options_of_second(s->o) : *s->o;
	int r = find_chosen(&s->chosen, &one, s->err);

	recorded__init(&s->recorded);
	if (!r)
		r = chosen__run(&s->chosen, s->path, &ro, &rep, &end, s->err);
	if (!r && !s->o->quiet)
		replay_say(s->path, rep->run.lost[MT_LOSS_DAMAGED], &end);
	if (!r)
		r = loss_exit_code(s->o, rep);
	report__free(rep);
	recorded_kept__done(&s->kept);
	recorded__done(&s->recorded);
	chosen__done(&s->chosen);
	return r;
}

int estimate_what_if(const struct options *o, struct err *err)
{
	struct side s = { .o = o, .err = err, .path = o->file };

	return side__read(&s);
}
