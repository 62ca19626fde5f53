/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What the other files add to a plan: notes, sites, vtables, how much of a source was found. */
#include "plan/builder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/names.h"

void builder__note(struct builder *b, const char *fmt, ...)
{
	struct plan *p = b->plan;
	char *text;
	va_list ap;
	int n;

	if (p->notes_cnt == PLAN_NOTES_MAX)
		return;
	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if (array_has_one_more(p->notes, p->notes_cnt))
		p->notes[p->notes_cnt++] = text;
	else
		free(text);
}

void builder__cover(struct builder *b, enum source source, uint32_t wanted, uint32_t found)
{
	struct plan *p = b->plan;

	if (p->covers_cnt < sizeof(p->covers) / sizeof(*p->covers))
		p->covers[p->covers_cnt++] = (struct plan_cover){ source, wanted, found };
}

int builder__put_site(struct builder *b, const struct lib *lib, const struct site *site)
{
	struct plan *p = b->plan;

	if (p->sites_cnt == b->sites_cap && 2 * b->sites_cap > PLAN_SITES_MAX) {
		builder__note(b, "%s: more than %u probe sites; the rest is not watched", lib->base, PLAN_SITES_MAX);
		return 0;
	}
	if (!array_has_room(p->sites, p->sites_cnt, b->sites_cap, 512))
		return -ENOMEM;
	p->sites[p->sites_cnt++] = *site;
	return 0;
}

int builder__add_site(struct builder *b, const struct site *site, const char *sym)
{
	struct site s = *site;

	s.lib = 0;
	s.sym = names__add(b->names, sym);
	return builder__put_site(b, b->lib, &s);
}

int builder__put_vtable(struct builder *b, uint64_t addr, name_id name)
{
	struct plan *p = b->plan;

	if (p->vtables_cnt == b->vtables_cap && 2 * b->vtables_cap > PLAN_SITES_MAX) {
		builder__note(b, "more than %u classes of backward nodes; the rest has no names", PLAN_SITES_MAX);
		return 0;
	}
	if (!array_has_room(p->vtables, p->vtables_cnt, b->vtables_cap, 256))
		return -ENOMEM;
	p->vtables[p->vtables_cnt++] = (struct vtable){ addr, name };
	return 0;
}

int builder__add_vtable(struct builder *b, uint64_t addr, const char *name)
{
	return builder__put_vtable(b, addr, names__add(b->names, name));
}
