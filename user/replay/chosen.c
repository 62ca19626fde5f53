/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/chosen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/filter.h"
#include "replay/replay.h"

/* As it is typed, for commands about the same processes. */
static void chosen__say(struct chosen *c, const struct selection *asked)
{
	size_t len = 0;

	if (asked->rank >= 0)
		snprintf(c->choice, sizeof(c->choice), "--rank %" PRId64, asked->rank);
	for (size_t i = 0; asked->rank < 0 && i < c->cnt; i++)
		len += (size_t)snprintf(c->choice + len, sizeof(c->choice) - len, "%s--pid %" PRIu32, i ? " " : "", c->pids[i]);
}

int chosen__find(struct chosen *c, const struct selection *asked, const char *path, enum classes classes, struct err *err)
{
	struct replay_opts ro = { .top = 1, .classes = classes };
	struct report *whole = NULL;
	struct replay_end end;
	struct filter f;
	int r;

	*c = (struct chosen){ .cnt = 0 };
	if (asked->rank < 0 && !asked->pids_cnt)
		return 0;
	r = replay_run(path, &ro, &whole, &end, err);
	if (r < 0)
		return r;
	filter__init(&f, asked, path);
	r = filter__find_pids(&f, whole, err);
	if (!r) {
		c->pids = f.pids;
		c->cnt = f.pids_cnt;
		f.pids = NULL;
		chosen__say(c, asked);
		c->cost = whole->cost;
	}
	filter__done(&f);
	report__free(whole);
	return r;
}

void chosen__done(struct chosen *c)
{
	free(c->pids);
	c->pids = NULL;
}

void chosen__tell_cost(const struct chosen *c, struct report *r)
{
	if (c->cnt)
		r->cost = c->cost;
}

int chosen__run(const struct chosen *c, const char *path, struct replay_opts *ro, struct report **ret,
		struct replay_end *ret_end, struct err *err)
{
	int r;

	ro->pids = c->pids;
	ro->pids_cnt = c->cnt;
	ro->choice = c->cnt ? c->choice : NULL;
	r = replay_run(path, ro, ret, ret_end, err);
	if (!r)
		chosen__tell_cost(c, *ret);
	return r;
}
