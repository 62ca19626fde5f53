/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * As torch.profiler's export_memory_timeline writes .json: [times, sizes]. times are µs since the
 * epoch, one of each run of equal ones; sizes are rows of nine: 0, then the live bytes of each category after
 * that time. Older blocks take the first time.
 *
 * Both lists are as long as the recording: times go out at once, rows to an unlinked file that is copied
 * behind them in the end.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spool.h"
#include "view/export.h"
#include "view/fold/torch_actions.h"
#include "view/outbuf.h"

struct export_ctx {
	struct outbuf times, sizes;
	FILE *rows; /* unlinked */
	struct torch_actions *actions;
	int64_t t_us; /* of the row that is being summed up; -1: before everything */
	int64_t sums[TORCH_CATEGORIES];
	int has_row, has_written;
};

/*
 * int(t / 1000) as Python makes it: the quotient is rounded to a double first, which near 2^50 has
 * quarters only, so that the last 125 ns of a microsecond belong to the next.
 */
static int64_t to_us(int64_t t_ns)
{
	return t_ns < 0 ? -1 : (int64_t)(double)((long double)t_ns / 1000.0L);
}

static int put_row(struct export_ctx *c, int64_t t_us)
{
	if (c->has_written) {
		outbuf__lit(&c->times, ", ");
		outbuf__lit(&c->sizes, ",\n");
	}
	c->has_written = 1;
	outbuf__i64(&c->times, t_us);
	outbuf__lit(&c->sizes, "[0");
	for (unsigned i = 0; i < TORCH_CATEGORIES; i++) {
		outbuf__lit(&c->sizes, ", ");
		outbuf__i64(&c->sizes, c->sums[i]);
	}
	outbuf__char(&c->sizes, ']');
	return c->times.err ? c->times.err : c->sizes.err;
}

static int add_record(void *ctx, const struct torch_record *r)
{
	struct export_ctx *c = ctx;
	int64_t t_us = to_us(r->t_ns);
	int err = 0;

	if (c->has_row && t_us != c->t_us)
		err = put_row(c, c->t_us < 0 ? t_us : c->t_us);
	c->has_row = 1;
	c->t_us = t_us;
	c->sums[r->index] += r->bytes;
	return err;
}

static void done(struct export_ctx *c)
{
	outbuf__done(&c->sizes);
	torch_actions__free(c->actions);
	if (c->rows)
		fclose(c->rows);
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	int r;

	c->rows = spool_file();
	r = c->rows ? outbuf__init(&c->sizes, c->rows) : -errno;
	if (r)
		return r;
	outbuf__lit(&c->times, "[[");
	return torch_actions__new(&c->actions, to, 0, add_record, c);
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	return torch_actions__event(c->actions, ev, epoch_off_ns);
}

static int copy_rows(struct export_ctx *c)
{
	char buf[65536];
	size_t n;
	int r = outbuf__flush(&c->sizes);

	if (r < 0)
		return r;
	rewind(c->rows);
	while ((n = fread(buf, 1, sizeof(buf), c->rows)) > 0)
		outbuf__put(&c->times, buf, n);
	return ferror(c->rows) ? -EIO : 0;
}

static int end(struct export_ctx *c, const struct report *r)
{
	int err = torch_actions__flush(c->actions);

	(void)r;
	if (!err && c->has_row)
		err = put_row(c, c->t_us);
	outbuf__lit(&c->times, "],\n[");
	if (!err)
		err = copy_rows(c);
	outbuf__lit(&c->times, "]]\n");
	return err;
}

const struct export_format export_torch_timeline = {
	.name = "torch-timeline",
	.help = "torch.profiler's memory timeline: live bytes by category over time (JSON)",
	.needs = EXPORT_NODES | EXPORT_LABELS | EXPORT_COMPAT,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};
