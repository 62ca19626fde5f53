/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "keeper/wire_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct wire_lib {
	uint64_t dev, ino;
};

struct head {
	uint64_t libs, sites, specs, seg_specs, flow_specs, flow_vtables, wanted; /* numbers of each */
	uint64_t comm_start, comm_end;
	struct mt_flow_layout layout;
	uint32_t has_layout, pad;
};

#define CNT_MAX (1u << 24) /* of each: sums cannot overflow */

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/* --- writing --------------------------------------------------------------------------------- */

struct wire_out {
	char *buf;
	size_t size, at;
	int is_full;
};

static void *wire_out__room(struct wire_out *o, size_t bytes)
{
	void *p = o->buf + o->at;

	if (o->is_full || padded(bytes) > o->size - o->at) {
		o->is_full = 1;
		return NULL;
	}
	o->at += padded(bytes);
	return p;
}

static void wire_out__put(struct wire_out *o, const void *v, size_t bytes)
{
	void *p = wire_out__room(o, bytes);

	if (p && bytes)
		memcpy(p, v, bytes);
}

int64_t wire_plan_write(void *buf, size_t size, const struct plan *p, const uint8_t *wanted)
{
	struct head h = { .libs = p->libs_cnt, .sites = p->sites_cnt, .specs = p->specs_cnt, .seg_specs = p->seg_specs_cnt,
			  .flow_specs = p->flow_specs_cnt, .flow_vtables = p->flow_vtables_cnt,
			  .wanted = wanted ? p->sites_cnt : 0, .comm_start = p->comm_start, .comm_end = p->comm_end,
			  .layout = p->flow_layout.at, .has_layout = p->flow_layout.torch != NULL };
	struct wire_out o = { .buf = buf, .size = size };

	wire_out__put(&o, &h, sizeof(h));
	for (size_t i = 0; i < p->libs_cnt; i++)
		wire_out__put(&o, &(struct wire_lib){ p->libs[i].dev, p->libs[i].ino }, sizeof(struct wire_lib));
	wire_out__put(&o, p->sites, p->sites_cnt * sizeof(*p->sites));
	wire_out__put(&o, p->specs, p->specs_cnt * sizeof(*p->specs));
	wire_out__put(&o, p->seg_specs, p->seg_specs_cnt * sizeof(*p->seg_specs));
	wire_out__put(&o, p->flow_specs, p->flow_specs_cnt * sizeof(*p->flow_specs));
	wire_out__put(&o, p->flow_vtables, p->flow_vtables_cnt * sizeof(*p->flow_vtables));
	wire_out__put(&o, wanted, h.wanted);
	return o.is_full ? -E2BIG : (int64_t)o.at;
}

/* --- reading --------------------------------------------------------------------------------- */

struct in {
	const char *bytes;
	size_t len, at;
	int is_short;
};

/* cnt structs of `bytes` each; NULL if there are none, or fewer. */
static void *in__array(struct in *i, uint64_t cnt, size_t bytes)
{
	const void *p = i->bytes + i->at;

	if (i->is_short || cnt > CNT_MAX || padded((size_t)cnt * bytes) > i->len - i->at) {
		i->is_short = 1;
		return NULL;
	}
	i->at += padded((size_t)cnt * bytes);
	return cnt ? (void *)p : NULL;
}

static int site_is_sane(const struct site *s, const struct plan *p)
{
	unsigned source = (unsigned)s->source;

	return s->lib < p->libs_cnt && s->prog > 0 && s->prog < MT_PROG_MAX && source && source < 1u << SRC_CNT &&
	       !(source & (source - 1)) && s->is_ret <= 1 && s->insn_class && s->insn_class < INSN_CLASSES;
}

static int sites_are_sane(const struct plan *p)
{
	for (size_t i = 0; i < p->sites_cnt; i++)
		if (!site_is_sane(&p->sites[i], p))
			return 0;
	return 1;
}

static int wire_plan__libs(struct plan *p, const struct wire_lib *libs, size_t cnt)
{
	p->libs = calloc(cnt + 1, sizeof(*p->libs));
	if (!p->libs)
		return -ENOMEM;
	p->libs_cnt = cnt;
	for (size_t i = 0; i < cnt; i++)
		p->libs[i] = (struct plan_lib){ .dev = libs[i].dev, .ino = libs[i].ino, .path = (char *)"", .fd = -1 };
	return 0;
}

int wire_plan__read(struct wire_plan *ret, const void *bytes, size_t len)
{
	struct in in = { .bytes = bytes, .len = len };
	const struct head *h = in__array(&in, 1, sizeof(*h));
	const struct wire_lib *libs;
	struct plan *p = &ret->plan;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!h || (uintptr_t)bytes & 7)
		return -EINVAL;
	libs = in__array(&in, h->libs, sizeof(*libs));
	p->sites = in__array(&in, p->sites_cnt = h->sites, sizeof(*p->sites));
	p->specs = in__array(&in, p->specs_cnt = h->specs, sizeof(*p->specs));
	p->seg_specs = in__array(&in, p->seg_specs_cnt = h->seg_specs, sizeof(*p->seg_specs));
	p->flow_specs = in__array(&in, p->flow_specs_cnt = h->flow_specs, sizeof(*p->flow_specs));
	p->flow_vtables = in__array(&in, p->flow_vtables_cnt = h->flow_vtables, sizeof(*p->flow_vtables));
	ret->wanted = in__array(&in, h->wanted, 1);
	if (in.is_short || in.at != in.len || (h->wanted && h->wanted != h->sites))
		return -EINVAL;
	p->comm_start = h->comm_start;
	p->comm_end = h->comm_end;
	p->flow_layout = (struct flow_layout){ .torch = h->has_layout ? "" : NULL, .at = h->layout };
	r = wire_plan__libs(p, libs, h->libs);
	if (!r && !sites_are_sane(p))
		r = -EINVAL;
	if (r)
		wire_plan__done(ret);
	return r;
}

void wire_plan__done(struct wire_plan *w)
{
	free(w->plan.libs);
	w->plan.libs = NULL;
}
