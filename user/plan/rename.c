/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Names of a plan in another table. A table of names is not thread-safe, so a thread that makes plans beside the loop has its
 * own, and a file's finds, which outlive plans, have theirs.
 */
#include <errno.h>
#include <stdlib.h>

#include "plan/builder.h"

int name_map__init(struct name_map *m, const struct names *from, struct names *to)
{
	uint32_t last = names__last(from);

	m->ids = calloc((size_t)last + 1, sizeof(*m->ids));
	if (!m->ids)
		return -ENOMEM;
	m->last = last;
	for (uint32_t i = 1; i <= last; i++)
		m->ids[i] = names__add_len(to, names__get(from, (name_id){ i }), names__len(from, (name_id){ i })).v;
	return 0;
}

void name_map__done(struct name_map *m)
{
	free(m->ids);
}

name_id name_map__to(const struct name_map *m, name_id id)
{
	return (name_id){ m->ids && id.v <= m->last ? m->ids[id.v] : 0 };
}

void name_map__site(const struct name_map *m, struct site *s)
{
	s->sym = name_map__to(m, s->sym);
	if (s->prog == MT_PROG_OP || s->prog == MT_PROG_FLOW_OP)
		s->cookie = (s->cookie & ~0xffffffffull) | name_map__to(m, (name_id){ (uint32_t)s->cookie }).v;
}

int plan__rename(struct plan *p, const struct names *from, struct names *to)
{
	struct name_map m = { 0 };
	int r = name_map__init(&m, from, to);

	for (size_t i = 0; i < p->sites_cnt && !r; i++)
		name_map__site(&m, &p->sites[i]);
	for (size_t i = 0; i < p->vtables_cnt && !r; i++)
		p->vtables[i].name = name_map__to(&m, p->vtables[i].name);
	for (size_t i = 0; i < p->seg_specs_cnt && !r; i++)
		p->seg_specs[i].api = name_map__to(&m, (name_id){ (uint32_t)p->seg_specs[i].api }).v;
	name_map__done(&m);
	return r;
}
