/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/name_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"

void name_cache__init(struct name_cache *c, const struct names *names,
		      void (*quote)(struct outbuf *o, const char *text, size_t len))
{
	*c = (struct name_cache){ .names = names, .quote = quote };
	for (unsigned i = 0; i < 256; i++)
		dev_name((uint8_t)i, c->dev_names[i]);
}

void name_cache__done(struct name_cache *c)
{
	for (uint32_t i = 0; i < c->cnt; i++)
		free(c->forms[i].text);
	free(c->forms);
	c->forms = NULL;
	c->cnt = 0;
}

static int name_cache__grow(struct name_cache *c, uint32_t id)
{
	uint32_t cnt = id + id / 2 + 256;
	struct name_form *forms;

	if (id >= NAMES_MAX)
		return -1;
	forms = realloc(c->forms, cnt * sizeof(*forms));
	if (!forms)
		return -1;
	memset(forms + c->cnt, 0, (cnt - c->cnt) * sizeof(*forms));
	c->forms = forms;
	c->cnt = cnt;
	return 0;
}

/* Through a FILE in memory, so that a format is written down in one place only. */
static void name_cache__make(struct name_cache *c, name_id id)
{
	struct name_form *form = &c->forms[id.v];
	struct outbuf o = { 0 };
	size_t len = 0;
	FILE *f = open_memstream(&form->text, &len);

	if (!f)
		return;
	if (!outbuf__init(&o, f)) {
		c->quote(&o, names__get(c->names, id), names__len(c->names, id));
		outbuf__flush(&o);
		outbuf__done(&o);
	}
	if (fclose(f) || o.err || !len) {
		free(form->text);
		*form = (struct name_form){ 0 };
		return;
	}
	form->len = (uint32_t)len;
}

void name_cache__put(struct name_cache *c, struct outbuf *o, name_id id)
{
	if (id.v < c->cnt || !name_cache__grow(c, id.v)) {
		if (!c->forms[id.v].text && id.v <= names__last(c->names))
			name_cache__make(c, id);
		if (c->forms[id.v].text) {
			outbuf__put(o, c->forms[id.v].text, c->forms[id.v].len);
			return;
		}
	}
	c->quote(o, names__get(c->names, id), names__len(c->names, id));
}
