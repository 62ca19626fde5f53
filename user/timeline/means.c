/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "timeline/means.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/free.h"
#include "memtrace/event.h"
#include "timeline/labels.h"

struct mean_row {
	uint64_t live, since_ns; /* since_ns: by the clock */
	double byte_ns;
};

struct mean_rows {
	struct mean_row *rows; /* by name */
	uint32_t cnt;
};

struct means {
	uint64_t from_ns, to_ns;
	uint64_t last_ns, clock_ns; /* of the stretch, what was traced up to last_ns */
	int host, in_gap;
	const struct labels *labels;
	struct mean_rows ops, regions, stacks, categories; /* of stacks by node, of categories by category_row() */
};

struct means *means__new(uint64_t from_ns, uint64_t to_ns, int host, const struct labels *labels)
{
	struct means *m = calloc(1, sizeof(*m));

	if (m)
		*m = (struct means){ .from_ns = from_ns, .to_ns = to_ns, .host = host, .labels = labels };
	return m;
}

void means__free(struct means *m)
{
	if (!m)
		return;
	free_all(m->ops.rows, m->regions.rows, m->stacks.rows, m->categories.rows, m);
}

static struct mean_row *mean_rows__get(struct mean_rows *r, name_id name)
{
	return array_reaches(r->rows, r->cnt, name.v, 1024) ? &r->rows[name.v] : NULL;
}

/* The clock goes within the stretch, and stands still in gaps. */
static uint64_t means__clock(const struct means *m, uint64_t ts_ns)
{
	uint64_t from = m->last_ns > m->from_ns ? m->last_ns : m->from_ns, to = ts_ns < m->to_ns ? ts_ns : m->to_ns;

	return m->clock_ns + (to > from && !m->in_gap ? to - from : 0);
}

static void means__advance(struct means *m, uint64_t ts_ns)
{
	m->clock_ns = means__clock(m, ts_ns);
	m->last_ns = ts_ns > m->last_ns ? ts_ns : m->last_ns;
}

static double mean_row__held(const struct mean_row *r, uint64_t clock_ns)
{
	return (double)r->live * (double)(clock_ns - r->since_ns);
}

static int means__change(struct means *m, struct mean_rows *rows, name_id name, const struct tl_event *ev, int allocated)
{
	struct mean_row *r = mean_rows__get(rows, name);

	if (!r)
		return -ENOMEM;
	r->byte_ns += mean_row__held(r, m->clock_ns);
	r->since_ns = m->clock_ns;
	if (allocated)
		r->live += ev->size;
	else
		r->live -= r->live < ev->size ? r->live : ev->size;
	return 0;
}

static name_id category_row(uint8_t dev, enum category cat)
{
	return (name_id){ (uint32_t)dev * CAT_MAX + (uint32_t)cat };
}

static int means__categorize(struct means *m, const struct tl_event *ev, uint32_t version, int allocated)
{
	if (!m->labels)
		return 0;
	return means__change(m, &m->categories, category_row(ev->dev, labels__get(m->labels, ev->id, version)), ev, allocated);
}

int means__event(struct means *m, const struct tl_event *ev)
{
	int allocated = ev->kind == TL_CREATE || ev->kind == TL_PREEXISTING;
	int r;

	if (ev->kind == TL_GAP) {
		means__advance(m, ev->ts_ns);
		m->in_gap = ev->version != 0;
	}
	if ((!allocated && ev->kind != TL_DESTROY && ev->kind != TL_VERSION) || ev->size == TL_SIZE_UNKNOWN ||
	    (ev->dev == MT_DEV_HOST) != m->host)
		return 0;
	means__advance(m, ev->ts_ns);
	if (ev->kind == TL_VERSION) {
		r = means__categorize(m, ev, ev->version - 1, 0);
		return r ? r : means__categorize(m, ev, ev->version, 1);
	}
	r = means__change(m, &m->ops, ev->op, ev, allocated);
	r = r ? r : means__change(m, &m->regions, ev->region, ev, allocated);
	r = r ? r : means__change(m, &m->stacks, (name_id){ ev->stack }, ev, allocated);
	return r ? r : means__categorize(m, ev, ev->version, allocated);
}

static double mean_rows__mean(const struct mean_rows *r, const struct means *m, name_id name)
{
	uint64_t clock_ns = means__clock(m, m->to_ns);

	if (name.v >= r->cnt || !clock_ns)
		return 0;
	return (r->rows[name.v].byte_ns + mean_row__held(&r->rows[name.v], clock_ns)) / (double)clock_ns;
}

double means__op(const struct means *m, name_id op)
{
	return mean_rows__mean(&m->ops, m, op);
}

double means__region(const struct means *m, name_id region)
{
	return mean_rows__mean(&m->regions, m, region);
}

double means__stack(const struct means *m, uint32_t node)
{
	return mean_rows__mean(&m->stacks, m, (name_id){ node });
}

double means__category(const struct means *m, uint8_t dev, enum category cat)
{
	return mean_rows__mean(&m->categories, m, category_row(dev, cat));
}
