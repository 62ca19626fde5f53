/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "placing"
#include "live/placing.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/quota.h"
#include "base/seed.h"
#include "keeper/keeper.h"
#include "live/place_look.h"
#include "live/worker.h"
#include "memtrace/event.h"
#include "python/runtime.h"
#include "target/script.h"

#define END_S 3 /* no look takes longer, unless a file system holds it up: then it is abandoned */

struct placed_proc {
	uint64_t pid; /* its key */
	struct py_runtime rt;
	uint32_t cnt; /* number of its places */
};

/* A line that was reported. */
struct placed {
	uint64_t hash; /* its key */
	pid_t pid;
	int is_plain; /* it stands for no operator */
};

struct placing {
	struct placing_env env;
	struct map procs, places;
	uint32_t waiting; /* jobs handed to the thread */
	uint64_t left_out;
	struct place_look *look; /* the thread's */
	struct worker *worker;
};

/* --- life -------------------------------------------------------------------------------------------------- */

static void do_look(void *ctx, struct work *w)
{
	place_look__do(ctx, (struct place_job *)w);
}

int placing__new(struct placing **ret, const struct placing_env *env, struct err *err)
{
	struct placing *p = calloc(1, sizeof(*p));
	int r;

	if (p) {
		p->env = *env;
		p->procs = MAP_OF(struct placed_proc);
		p->places = MAP_OF(struct placed);
		p->look = place_look__new();
	}
	if (!p || !p->look) {
		placing__free(p);
		return err_set(err, -ENOMEM, "out of memory");
	}
	r = worker__new(&p->worker, do_look, p->look, "reads lines of Python", err);
	if (r) {
		placing__free(p);
		return r;
	}
	*ret = p;
	return 0;
}

static void job__free(struct place_job *j)
{
	free(j->text);
	free(j->nodes);
	free(j);
}

void placing__free(struct placing *p)
{
	struct place_job *j;

	if (!p || worker__end(p->worker, END_S))
		return;
	while (p->worker && (j = (struct place_job *)worker__done(p->worker)))
		job__free(j);
	worker__free(p->worker);
	place_look__free(p->look);
	map__done(&p->procs);
	map__done(&p->places);
	free(p);
}

int placing__fd(const struct placing *p)
{
	return worker__fd(p->worker);
}

uint64_t placing__left_out_cnt(const struct placing *p)
{
	return p ? p->left_out : 0;
}

/* --- processes ----------------------------------------------------------------------------------------------- */

void placing__python(struct placing *p, pid_t pid, const struct py_runtime *rt)
{
	struct placed_proc *at = map__put(&p->procs, (uint64_t)pid);

	if (!at)
		return;
	at->rt = *rt;
	at->rt.lib = NULL; /* valid only as long as the libraries of the reader that found it */
}

static void ask(struct placing *p, const struct place_job *what)
{
	struct place_job *j = malloc(sizeof(*j));

	if (!j || p->waiting >= PLACING_WAITING_MAX) {
		p->left_out += !what->is_end;
		free(j);
		return;
	}
	*j = *what;
	p->waiting++;
	worker__add(p->worker, &j->work);
}

void placing__end(struct placing *p, pid_t pid)
{
	struct placed_proc *at = map__find(&p->procs, (uint64_t)pid);

	if (!at)
		return;
	map__remove(&p->procs, at);
	for (uint32_t i = p->places.cnt; i-- > 0;) {
		struct placed *place = map__at(&p->places, i);

		if (place->pid == pid)
			map__remove(&p->places, place);
	}
	ask(p, &(struct place_job){ .pid = pid, .is_end = 1 });
}

/* --- lines --------------------------------------------------------------------------------------------------- */

void placing__seen(struct placing *p, const struct mt_rec_place *rec, name_id name)
{
	pid_t pid = (pid_t)rec->hdr.pid;
	struct placed_proc *proc = map__find(&p->procs, (uint64_t)pid);
	struct placed *place = map__find(&p->places, rec->hash);

	if (!proc)
		return;
	if (place) { /* the kernel side had forgotten it */
		if (place->is_plain)
			(void)keeper__plain_place(p->env.keeper, pid, rec->hash);
		return;
	}
	if (!quota_allows(proc->cnt, p->places.cnt, PLACING_PLACES_MAX, PLACING_PART)) {
		p->left_out++;
		return;
	}
	place = map__put(&p->places, rec->hash);
	if (!place)
		return;
	place->pid = pid;
	proc->cnt++;
	ask(p, &(struct place_job){ .pid = pid, .rt = proc->rt, .code = rec->code, .instr = rec->instr, .check = rec->check,
				    .hash = rec->hash, .ts_ns = rec->hdr.ts_ns, .name = name });
}

static name_id reported_as(const struct placing *p, const struct place_job *j, const char *text)
{
	return j->text && text && text[0] ? tell__name(&p->env.tell, j->pid, text) : NAME_NONE;
}

/* A line whose code object could not be read any more is left open: it is looked at when it is reported again. */
static void say(struct placing *p, const struct place_job *j)
{
	struct placed *place = map__find(&p->places, j->hash);
	char where[PY_CODE_TEXT_MAX + 16];
	const char *name;

	if (!place || place->pid != j->pid)
		return;
	log_debug("process %d: line %u of %s: %s", (int)j->pid, j->line, j->file, j->text ? j->text : "not generated");
	if (j->r) {
		map__remove(&p->places, place);
		return;
	}
	if (!j->text) {
		place->is_plain = 1;
		(void)keeper__plain_place(p->env.keeper, j->pid, j->hash);
	}
	name = script_name(j->file);
	snprintf(where, sizeof(where), "%s:%u", name ? name : "", j->line);
	tell__event(&p->env.tell, (struct event){ .ts_ns = j->ts_ns, .kind = EV_PLACE, .pid = (uint32_t)j->pid, .name = j->name,
						  .root = reported_as(p, j, name ? where : NULL),
						  .type = reported_as(p, j, j->nodes), .key = reported_as(p, j, j->buffer),
						  .addr = j->text ? tell__name(&p->env.tell, j->pid, j->text).v : 0,
						  .flags = j->made, .size = hash_two(j->code, j->check) });
}

void placing__done(struct placing *p)
{
	struct place_job *j;

	while ((j = (struct place_job *)worker__done(p->worker))) {
		p->waiting--;
		if (!j->is_end)
			say(p, j);
		job__free(j);
	}
}

void placing__finish(struct placing *p)
{
	uint64_t until = now_ns() + PLACING_FINISH_MS * 1000000ull;

	while (p && p->waiting && now_ns() < until) {
		struct pollfd fd = { .fd = worker__fd(p->worker), .events = POLLIN };

		(void)poll(&fd, 1, PLACING_FINISH_MS / 10);
		placing__done(p);
	}
}
