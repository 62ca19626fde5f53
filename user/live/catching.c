/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "catching"
#include "live/catching.h"

#include "base/clock.h"
#include "base/log.h"
#include "event/decode.h"
#include "keeper/keeper.h"
#include "live/followed.h"
#include "live/stream.h"
#include "model/model.h"

#define ASK_NS 2000000000ull	 /* between two checks whether anything grows */
#define GAP_MAX_NS 64000000000ull /* between two moments; the distance doubles each time */
#define MOMENT_NS 8000000000ull
#define ASKS_MAX 4 /* per turn: each check looks at everything that may grow */

_Static_assert(MOMENT_NS <= MT_CATCH_NS_MAX, "the keeper takes it");
_Static_assert(MODEL_WANTED_MAX <= MT_CATCH_SORTS_MAX, "there is room for all");

static struct catch_proc *catching__proc(struct catching *c, pid_t pid)
{
	struct catch_proc *room = NULL;

	for (size_t i = 0; i < MT_CATCH_PROCS_MAX; i++) {
		if (c->procs[i].pid == pid)
			return &c->procs[i];
		if (!c->procs[i].pid && !room)
			room = &c->procs[i];
	}
	if (room)
		*room = (struct catch_proc){ .pid = pid };
	return room;
}

static void catching__forget_gone(struct catching *c)
{
	for (size_t i = 0; i < MT_CATCH_PROCS_MAX; i++)
		if (c->procs[i].pid && !followed__find(c->followed, c->procs[i].pid))
			c->procs[i] = (struct catch_proc){ 0 }; /* the kernel side forgot it with its probes */
}

static struct mt_catch catch_of(const struct catching *c, const struct model_wanted *v, size_t cnt, uint64_t from_ns)
{
	struct mt_catch what = { .until_ns = from_ns + MOMENT_NS, .cnt = cnt };

	for (size_t i = 0; i < cnt; i++)
		what.sorts[i] = (struct mt_catch_sort){
			.min = v[i].min, .max = v[i].max, .dev = v[i].dev, .left = (int32_t)(MT_CATCH_LEFT_MAX / cnt),
			.op = { v[i].op.v, (uint32_t)decode__hash_of(c->stream->decode, v[i].op) } };
	return what;
}

/* Something grows in the process, and the place that allocates it is unknown. */
static void catching__begin(struct catching *c, struct catch_proc *p, uint64_t turn_ns)
{
	struct model_wanted wanted[MODEL_WANTED_MAX];
	struct mt_catch what;
	size_t cnt;

	p->next_ns = turn_ns + ASK_NS;
	if (model__wanted(c->stream->model, (uint32_t)p->pid, wanted, &cnt) || !cnt)
		return;
	p->gap_ns = p->gap_ns ? p->gap_ns * 2 : ASK_NS;
	p->gap_ns = p->gap_ns < GAP_MAX_NS ? p->gap_ns : GAP_MAX_NS;
	p->next_ns = turn_ns + p->gap_ns;
	if (!stream__reads_python(c->stream, p->pid))
		return;
	log_debug("process %d: its Python can be told after %.1f ms", (int)p->pid, (double)(now_ns() - turn_ns) / 1e6);
	what = catch_of(c, wanted, cnt, now_ns());
	if (keeper__catch(c->keeper, p->pid, &what))
		return;
	p->until_ns = what.until_ns;
	if (p->next_ns < p->until_ns)
		p->next_ns = p->until_ns;
	log_debug("process %d: births of %zu sorts are caught", (int)p->pid, cnt);
}

static void catching__end(struct catching *c, struct catch_proc *p)
{
	(void)keeper__catch(c->keeper, p->pid, NULL);
	p->until_ns = 0;
}

void catching__turn(struct catching *c, int is_traced, uint64_t turn_ns)
{
	const struct process *p;
	size_t at = 0;
	int asks = 0;

	if (!c->is_on)
		return;
	catching__forget_gone(c);
	while ((p = followed__next(c->followed, &at))) {
		struct catch_proc *mine = catching__proc(c, p->pid);

		if (mine && mine->until_ns && turn_ns >= mine->until_ns)
			catching__end(c, mine);
		if (!mine || mine->until_ns || !is_traced || turn_ns < mine->next_ns || asks == ASKS_MAX)
			continue;
		catching__begin(c, mine, turn_ns);
		asks++;
	}
}
