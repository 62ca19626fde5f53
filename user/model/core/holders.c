/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/holders.h"

/* A later report of the same block replaces the one before. */
void holders__reported(struct holders *h, const struct event *ev, const struct growth_key *of)
{
	size_t at = 0;

	while (at < h->cnt && (h->v[at].pid != ev->pid || h->v[at].addr != ev->addr || h->v[at].dev != ev->dev))
		at++;
	if (at == HOLDERS_MAX)
		at = h->hand++ % HOLDERS_MAX;
	else if (at == h->cnt)
		h->cnt++;
	h->v[at] = (struct holder){ .ts_ns = ev->ts_ns, .addr = ev->addr, .items = ev->size, .pid = ev->pid, .dev = ev->dev,
				    .unseen = ev->flags & EV_HELD_UNSEEN, .path = ev->name, .kind = ev->type,
				    .where = ev->key };
	if (of)
		h->v[at].of = *of;
}
