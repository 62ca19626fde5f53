/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* diff: two recordings, each read to what is compared of it (replay/compared.h). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "base/outfile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "replay/compared.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "view/page/diff_page.h"
#include "view/page/html_page.h"
#include "view/tables/diff.h"

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

/* A page has them where it can. */
static bool shows_categories(const struct options *o)
{
	return o->by == BY_CATEGORY || o->out;
}

bool diff_spools(const struct options *o)
{
	return shows_categories(o) || o->by == BY_NAME;
}

/* Refuses before it reads more. */
static int read_side(struct compared *c, const struct options *o, struct err *err)
{
	int r;

	*c = (struct compared){ .path = o->file, .asked = selection_of(o), .classes = o->classes,
				.with_categories = shows_categories(o) };
	r = compared__scan(c, err);
	if (!r && !o->quiet)
		replay_say(o->file, c->scanned->run.lost[MT_LOSS_DAMAGED], &c->end);
	if (!r && o->by == BY_SYMBOL)
		r = refuse_gaps(c->scanned, o->file, err);
	return r ? r : compared__read(c, diff_by_of(o->by), err);
}

int cmd_diff(const struct options *o, struct err *err)
{
	const struct options second = options_of_second(o);
	struct compared a = { .path = NULL }, b = { .path = NULL };
	int r = read_side(&a, o, err);

	if (!r)
		r = read_side(&b, &second, err);
	if (!r && o->by == BY_NAME)
		r = compared__name(&a, &b, err);
	if (!r) {
		const struct diff_side sides[] = { a.side, b.side };

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
	if (!r && fails(o, a.report, b.report))
		r = EXIT_LIMIT;
	if (!r && loss_exit_code(o, a.report) + loss_exit_code(o, b.report))
		r = EXIT_LOST;
	compared__done(&a);
	compared__done(&b);
	return r;
}
