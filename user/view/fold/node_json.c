/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/node_json.h"

#include "view/export.h"

int node_has_role(const struct tl_edge *e, enum node_role role)
{
	int allocated = e->flags & TL_EDGE_ALLOCATED, died = e->flags & TL_EDGE_FREED;

	switch (role) {
	case NODE_INPUT:
		return !allocated;
	case NODE_OUTPUT:
		return !died && e->flags & (TL_EDGE_ALLOCATED | TL_EDGE_WRITTEN);
	case NODE_INTERMEDIATE:
		return allocated && died;
	default:
		return !allocated && died;
	}
}

static void put_role(struct outbuf *o, struct name_cache *names, const struct tl_event *ev, const char *key,
		     enum node_role role)
{
	int has_one = 0;

	outbuf__str(o, key);
	for (uint32_t i = 0; i < ev->edges_cnt; i++) {
		const struct tl_edge *e = &ev->edges[i];
		int after = role == NODE_OUTPUT || role == NODE_INTERMEDIATE;

		if (!node_has_role(e, role))
			continue;
		outbuf__str(o, has_one ? ",{\"id\":" : "{\"id\":");
		outbuf__u64(o, e->id);
		outbuf__lit_u64(o, ",\"version\":", after ? e->out_version : e->version);
		outbuf__lit(o, ",\"cat\":\"");
		outbuf__str(o, tl_cat_name(after ? e->out_cat : e->cat));
		outbuf__lit(o, "\",\"dev\":\"");
		outbuf__str(o, names->dev_names[e->dev]);
		outbuf__lit(o, "\"}");
		has_one = 1;
	}
	outbuf__char(o, ']');
}

static void put_name(struct outbuf *o, struct name_cache *names, const char *key, name_id id)
{
	outbuf__str(o, key);
	if (id.v)
		name_cache__put(names, o, id);
	else
		outbuf__lit(o, "null");
}

void node_json(struct outbuf *o, struct name_cache *names, const struct tl_event *ev, int64_t epoch_off_ns,
	       uint64_t step)
{
	outbuf__lit_u64(o, "{\"t\":", ev->ts_ns + (uint64_t)epoch_off_ns);
	outbuf__lit(o, ",\"ev\":\"node\"");
	if (step)
		outbuf__lit_u64(o, ",\"step\":", step);
	put_name(o, names, ",\"op\":", ev->op);
	put_name(o, names, ",\"region\":", ev->region);
	outbuf__lit_u64(o, ",\"tid\":", ev->tid);
	outbuf__lit_u64(o, ",\"pid\":", ev->pid);
	put_role(o, names, ev, ",\"inputs\":[", NODE_INPUT);
	put_role(o, names, ev, ",\"outputs\":[", NODE_OUTPUT);
	put_role(o, names, ev, ",\"intermediates\":[", NODE_INTERMEDIATE);
	put_role(o, names, ev, ",\"deleted\":[", NODE_DELETED);
	outbuf__lit(o, "}\n");
}
