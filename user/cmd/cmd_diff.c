/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * diff: each recording is read twice, once for its steps, once for the events between; twice more for the names of blocks
 * live at its peak. Of a recording with gaps all that was traced is compared (docs/sampling.md). The first two of more than
 * eight steps are left out: in them older blocks are seen late, and labels come later than their blocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/names.h"
#include "base/outfile.h"
#include "base/regions.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "event/event.h"
#include "replay/chosen.h"
#include "replay/held_moment.h"
#include "replay/replay.h"
#include "timeline/means.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "view/fold/holdings.h"
#include "view/page/diff_page.h"
#include "view/page/html_page.h"
#include "view/report_words.h"
#include "view/tables/diff.h"

#define SKIPPED 2
#define SKIP_ABOVE 8

struct boundaries {
	uint64_t ts_ns[SKIPPED + 1]; /* the first ones */
	uint64_t last_ns, cnt;
};

struct side {
	struct options o; /* of its recording */
	struct chosen chosen;
	const struct names *names; /* while it is read */
	struct boundaries marks, optimizer;
	uint64_t first_ns, last_ns; /* decisions */
	int host; /* malloc is the only layer */
	int has_ops;
	struct means *means;
	struct report *at[2]; /* as of the stretch's ends */
	size_t at_cnt;
	struct report *end;
	double *op_means, *region_means, *stack_means;
	struct held_moment peak; /* --by name */
	struct diff_named *named;
	struct diff_side out;
};

/* --- where steps are ------------------------------------------------------------------------------------- */

static void boundaries__add(struct boundaries *b, uint64_t ts_ns)
{
	if (b->cnt <= SKIPPED)
		b->ts_ns[b->cnt] = ts_ns;
	b->cnt++;
	b->last_ns = ts_ns;
}

static int scan_begin(void *ctx, const struct names *names)
{
	((struct side *)ctx)->names = names;
	return 0;
}

static int scan_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct side *s = ctx;

	(void)epoch_off_ns;
	s->first_ns = s->first_ns ? s->first_ns : ev->ts_ns;
	s->last_ns = ev->ts_ns;
	if (ev->kind == TL_OP && !s->has_ops) { /* before, their probes were being set: such a step is not whole */
		s->has_ops = 1;
		s->marks = s->optimizer = (struct boundaries){ .cnt = 0 };
	}
	if (ev->kind == TL_STEP)
		boundaries__add(&s->marks, ev->ts_ns);
	else if (ev->kind == TL_REGION && region_is_step(names__get(s->names, ev->region)))
		boundaries__add(&s->optimizer, ev->ts_ns);
	return 0;
}

static int side__scan(struct side *s, struct err *err)
{
	struct replay_opts ro = { .top = 1, .begin = scan_begin, .event = scan_event, .with_ops = 1, .ctx = s };
	const struct boundaries *b;
	struct report *rep = NULL;
	struct replay_end end = { 0 };
	uint64_t skip;
	int r = chosen__run(&s->chosen, s->o.file, &ro, &rep, &end, err);

	if (r < 0)
		return r;
	if (!s->o.quiet)
		replay_say(s->o.file, rep->run.lost[MT_LOSS_DAMAGED], &end);
	r = s->o.by == BY_SYMBOL ? refuse_gaps(rep, s->o.file, err) : 0;
	s->host = rep->devs_cnt == 1 && rep->devs[0].dev == MT_DEV_HOST;
	s->out.is_sampled = rep->sampling.is_on;
	s->out.steps = s->out.is_sampled ? rep->sampling.steps_traced : 0;
	report__free(rep);
	if (r < 0)
		return r;
	b = s->marks.cnt >= 2 ? &s->marks : &s->optimizer;
	skip = b->cnt > SKIP_ABOVE && !s->out.is_sampled ? SKIPPED : 0; /* the first ones may be all that was traced */
	s->out.from_ns = b->cnt >= 2 ? b->ts_ns[skip] : s->first_ns;
	s->out.to_ns = b->cnt >= 2 ? b->last_ns : s->last_ns;
	if (!s->out.is_sampled)
		s->out.steps = b->cnt >= 2 ? b->cnt - 1 - skip : 0;
	return 0;
}

/* --- events between them --------------------------------------------------------------------------------- */

static int read_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)epoch_off_ns;
	return means__event(((struct side *)ctx)->means, ev);
}

static int read_mark(void *ctx, struct report *then)
{
	struct side *s = ctx;

	s->at[s->at_cnt++] = then;
	return 0;
}

static int read_end(void *ctx, const struct report *end, int r)
{
	struct side *s = ctx;

	if (r < 0)
		return r;
	s->op_means = calloc(end->ops.cnt + 1, sizeof(*s->op_means));
	s->region_means = calloc(end->regions.cnt + 1, sizeof(*s->region_means));
	s->stack_means = calloc(end->stacks.cnt + 1, sizeof(*s->stack_means));
	if (!s->op_means || !s->region_means || !s->stack_means)
		return -ENOMEM;
	for (size_t i = 0; i < end->ops.cnt; i++)
		s->op_means[i] = means__op(s->means, names__find(s->names, end->ops.rows[i].name));
	s->op_means[end->ops.cnt] = means__op(s->means, NAME_NONE);
	for (size_t i = 0; i < end->regions.cnt; i++)
		s->region_means[i] = means__region(s->means, names__find(s->names, end->regions.rows[i].name));
	for (size_t i = 0; i < end->stacks.cnt; i++)
		s->stack_means[i] = means__stack(s->means, end->stacks.rows[i].node);
	s->stack_means[end->stacks.cnt] = means__stack(s->means, 0);
	return 0;
}

static int side__read(struct side *s, struct err *err)
{
	struct replay_opts ro = { .top = SIZE_MAX, .ranks_top = s->o.by == BY_RANK ? 1 : 0, .begin = scan_begin,
				  .event = read_event, .end = read_end, .mark = read_mark, .marks_cnt = 2,
				  .classes = s->o.classes, .ctx = s };
	struct replay_end end;
	int r = find_chosen(&s->chosen, &s->o, err);

	if (!r)
		r = side__scan(s, err);
	if (r < 0)
		return r;
	ro.marks[0] = s->out.from_ns;
	ro.marks[1] = s->out.to_ns;
	s->means = means__new(s->out.from_ns, s->out.to_ns, s->host);
	if (!s->means)
		return err_set(err, -ENOMEM, "out of memory");
	r = chosen__run(&s->chosen, s->o.file, &ro, &s->end, &end, err);
	if (r < 0)
		return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
	s->out.from = s->at[0];
	s->out.to = s->at[1];
	s->out.end = s->end;
	s->out.op_means = s->op_means;
	s->out.region_means = s->region_means;
	s->out.stack_means = s->stack_means;
	return 0;
}

/* Blocks live at the peak of a device, by name. A job that makes gradients anew in each step has names for some of them. */
static int side__name(struct side *s, uint8_t dev, struct err *err)
{
	const struct holding *rows;
	struct selection asked;
	size_t cnt;
	int r;

	if (!report_dev_find(s->end, dev))
		return 0;
	s->o.dev = dev;
	asked = selection_of(&s->o);
	r = held_moment__learn(&s->peak, &asked, s->o.file, s->o.classes, err);
	if (!r)
		r = held_moment__hold(&s->peak, s->o.depth, err);
	if (r < 0)
		return r;
	rows = holdings__rows(s->peak.held, HELD_BY_NAME, &cnt);
	s->named = calloc(cnt + 1, sizeof(*s->named));
	if (!s->named)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < cnt; i++)
		if (rows[i].name[0] && !rows[i].is_gradient)
			s->named[s->out.named_cnt++] = (struct diff_named){ rows[i].name, rows[i].bytes };
	s->out.named = s->named;
	return 0;
}

static int sides__name(struct side *a, struct side *b, struct err *err)
{
	uint64_t to;
	const struct report_dev *d = a->o.by == BY_NAME ? diff_peak_changed(a->end, b->end, &to) : NULL;
	int r = d ? side__name(a, d->dev, err) : 0;

	return r || !d ? r : side__name(b, d->dev, err);
}

static void side__done(struct side *s)
{
	held_moment__done(&s->peak);
	chosen__done(&s->chosen);
	free(s->named);
	means__free(s->means);
	report__free(s->at[0]);
	report__free(s->at[1]);
	report__free(s->end);
	free(s->op_means);
	free(s->region_means);
	free(s->stack_means);
}

/* --- both ------------------------------------------------------------------------------------------------- */

static enum diff_by diff_by_of(enum view_by by)
{
	return by == BY_CATEGORY ? DIFF_BY_CATEGORY : by == BY_DEVICE ? DIFF_BY_DEVICE : by == BY_REGION ? DIFF_BY_REGION :
	       by == BY_SYMBOL ? DIFF_BY_SYMBOL : by == BY_STACK ? DIFF_BY_STACK : by == BY_MODULE ? DIFF_BY_MODULE :
	       by == BY_NAME ? DIFF_BY_NAME : by == BY_RANK ? DIFF_BY_RANK : DIFF_BY_OP;
}

static size_t rows_of(const struct diff_side *s, enum view_by by)
{
	return by == BY_MODULE ? s->end->modules.cnt : by == BY_NAME ? s->named_cnt + s->end->names.cnt :
	       by == BY_RANK   ? s->end->ranks->cnt : 1;
}

static int no_rows(const struct options *o, const struct diff_side *s, struct err *err)
{
	int a = rows_of(&s[0], o->by) != 0, b = rows_of(&s[1], o->by) != 0;

	if (a && b)
		return 0;
	err_set(err, -NO_TABLE, "%s has no %s", a ? o->file_b : o->file,
		o->by == BY_MODULE ? "modules" : o->by == BY_NAME ? "named tensors" : "ranks");
	return err_hint(err, "--by op and --by category compare without");
}

/* A limit is meaningless for a recording without memory. */
static int no_memory(const struct options *o, const struct diff_side *s, struct err *err)
{
	int a = diff_side__is_empty(&s[0]);

	if (o->fail_share < 0 || (!a && !diff_side__is_empty(&s[1])))
		return 0;
	err_set(err, -ENODATA, "--fail-if: %s has no memory of any device", a ? o->file : o->file_b);
	return err_hint(err, "without --fail-if, diff shows what the two have");
}

/* --fail-if: prints the devices whose peak grew by too much. */
static int fails(const struct options *o, const struct report *a, const struct report *b)
{
	int is_above = 0;

	for (size_t i = 0; i < b->devs_cnt && o->fail_share >= 0; i++) {
		const struct report_dev *was = report_dev_find(a, b->devs[i].dev), *is = &b->devs[i];
		double before = was ? (double)was->peak : 0;
		char name[16], x[24], y[24];

		if ((double)is->peak <= before * (1 + o->fail_share) + (double)o->fail_bytes)
			continue;
		is_above = 1;
		fprintf(stderr, "memtrace: %s: the peak grew from %s to %s, by more than --fail-if allows\n",
			dev_name(is->dev, name), fmt_bytes(x, (uint64_t)before), fmt_bytes(y, is->peak));
	}
	return is_above;
}

static int no_categories(const struct options *o, const struct diff_side *s, struct err *err)
{
	if (o->by != BY_CATEGORY || (s[0].end->has_flow && s[1].end->has_flow))
		return 0;
	err_set(err, -NO_TABLE, "%s has no data flow", s[0].end->has_flow ? o->file_b : o->file);
	return err_hint(err, "categories need recordings with the source flow: --by op compares without");
}

static int no_stacks(const struct options *o, const struct diff_side *s, struct err *err)
{
	int a = s[0].end->stacks.total != 0, b = s[1].end->stacks.total != 0;
	char size[24];

	if (o->by != BY_STACK || (a && b))
		return 0;
	if (!a && !b)
		err_set(err, -NO_TABLE, "neither %s nor %s has stacks", o->file, o->file_b);
	else
		err_set(err, -NO_TABLE, "%s has no stacks", a ? o->file_b : o->file);
	return err_hint(err, "stacks need recordings with --stacks, and blocks that reach its --stack-size (default %s): "
			"--by op compares without", fmt_bytes(size, STACK_SIZE_DEFAULT));
}

static int diff_write(const struct options *o, const struct diff_side *sides, struct err *err)
{
	const char *const paths[] = { o->file, o->file_b };
	struct view_opts vo = view_opts_of(o);
	struct diff d;
	struct diff_view v = { .diff = &d, .sides = sides, .paths = paths, .by = diff_by_of(o->by) };
	int r = diff__make(&d, &sides[0], &sides[1], v.by);

	if (r < 0)
		return err_set(err, r, "out of memory");
	vo.top = report_top(o);
	r = o->json ? diff_view_json(stdout, &v, &vo) : o->md ? diff_view_md(stdout, &v, &vo) : diff_view_text(stdout, &v, &vo);
	diff__done(&d);
	return r < 0 ? err_set(err, r, "writing: %s", strerror(-r)) : 0;
}

/* --- as a page ------------------------------------------------------------------------------------------------ */

/* The tables asked for, then those that both have. */
static void page_tables(const struct options *o, struct diff_page *p)
{
	const struct report *a = p->sides[0].end, *b = p->sides[1].end;
	const struct {
		enum diff_by by;
		int is_there;
	} all[] = { { diff_by_of(o->by), o->by != BY_OP },
		    { DIFF_BY_CATEGORY, a->has_flow && b->has_flow && o->by != BY_CATEGORY },
		    { DIFF_BY_MODULE, a->modules.cnt && b->modules.cnt && o->by != BY_MODULE },
		    { DIFF_BY_OP, 1 } };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].is_there)
			p->by[p->by_cnt++] = all[i].by;
}

static int page_write(const struct options *o, const struct diff_side *sides, struct err *err)
{
	const char *const paths[] = { o->file, o->file_b };
	struct diff_page p = { .sides = sides, .paths = paths, .top = o->top ? o->top : TOP_JSON };
	struct outfile_how how = outputs_of(o);
	char name[TEXT_BYTES_MAX];
	struct outfile f;
	FILE *out = NULL;
	int r, fd;

	if (html_page__missing())
		return err_set(err, -ENOTSUP, "%s", html_page__missing());
	page_tables(o, &p);
	r = outfile__open(&f, o->out, OUTFILE_WHOLE, &how, err);
	if (r < 0)
		return r;
	fd = fcntl(f.fd, F_DUPFD_CLOEXEC, 0); /* a FILE closes its own, and the other is synced then */
	if (fd >= 0)
		out = fdopen(fd, "w");
	r = out ? diff_page__write(out, &p) : -errno;
	if (out && fclose(out) && !r)
		r = -errno;
	if (r < 0) {
		outfile__drop(&f);
		return err_set(err, r, "writing %s: %s", o->out, strerror(-r));
	}
	r = outfile__finish(&f, err);
	if (!r && !o->quiet)
		fprintf(stderr, "%s: a page of both recordings\n", safe_text(name, o->out));
	return r;
}

int cmd_diff(const struct options *o, struct err *err)
{
	struct side a = { .o = *o }, b = { .o = options_of_second(o) };
	int r = side__read(&a, err);

	if (!r)
		r = side__read(&b, err);
	if (!r)
		r = sides__name(&a, &b, err);
	if (!r) {
		const struct diff_side sides[] = { a.out, b.out };

		r = no_memory(o, sides, err);
		if (!r)
			r = no_rows(o, sides, err);
		if (!r)
			r = no_categories(o, sides, err);
		if (!r)
			r = no_stacks(o, sides, err);
		if (!r)
			r = o->out ? page_write(o, sides, err) : diff_write(o, sides, err);
	}
	if (!r && fails(o, a.end, b.end))
		r = EXIT_LIMIT;
	if (!r && loss_exit_code(o, a.end) + loss_exit_code(o, b.end))
		r = EXIT_LOST;
	side__done(&a);
	side__done(&b);
	return r;
}
