/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A file that inductor wrote is never written again: its name is a hash of its text. A file that is gone, or has nothing about
 * a line, still has such a name: then the line is known to be compiled code, and no more.
 */
#include "live/place_look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "live/generated_files.h"
#include "python/generated.h"
#include "target/script.h"
#include "target/target.h"

struct look_proc {
	pid_t pid; /* 0: none */
	struct target *target;
};

struct look_code {
	pid_t pid; /* 0: none */
	uint64_t addr, check;
	struct py_code code;
};

struct place_look {
	struct look_proc procs[PLACE_PROCS_MAX];
	struct look_code codes[PLACE_CODES_MAX];
	unsigned next_proc, next_code; /* the next to be replaced */
	struct generated_files *files;
};

struct place_look *place_look__new(void)
{
	struct place_look *pl = calloc(1, sizeof(*pl));

	if (pl)
		pl->files = generated_files__new();
	if (pl && pl->files)
		return pl;
	free(pl);
	return NULL;
}

/* --- dropping ------------------------------------------------------------------------------------------------- */

static void drop_proc(struct look_proc *p)
{
	target__free(p->target);
	*p = (struct look_proc){ 0 };
}

static void drop_code(struct look_code *c)
{
	py_code__done(&c->code);
	c->pid = 0;
}

/* pid 0: all. */
static void forget(struct place_look *pl, pid_t pid)
{
	for (size_t i = 0; i < PLACE_PROCS_MAX; i++)
		if (!pid || pl->procs[i].pid == pid)
			drop_proc(&pl->procs[i]);
	for (size_t i = 0; i < PLACE_CODES_MAX; i++)
		if (!pid || pl->codes[i].pid == pid)
			drop_code(&pl->codes[i]);
}

void place_look__free(struct place_look *pl)
{
	if (!pl)
		return;
	forget(pl, 0);
	generated_files__free(pl->files);
	free(pl);
}

/* --- code ------------------------------------------------------------------------------------------------------ */

static struct target *find_target(struct place_look *pl, pid_t pid, int *ret_r)
{
	struct look_proc *p;

	for (size_t i = 0; i < PLACE_PROCS_MAX; i++)
		if (pl->procs[i].pid == pid)
			return pl->procs[i].target;
	p = &pl->procs[pl->next_proc++ % PLACE_PROCS_MAX];
	drop_proc(p);
	*ret_r = target__open_bare(&p->target, pid, NULL, NULL);
	p->pid = *ret_r ? 0 : pid;
	return p->target;
}

/* NULL: *ret_r is the reason. */
static const struct py_code *find_code(struct place_look *pl, const struct place_job *j, int *ret_r)
{
	struct look_code *c;
	struct target *t;
	struct py_mem mem;

	for (size_t i = 0; i < PLACE_CODES_MAX; i++)
		if (pl->codes[i].pid == j->pid && pl->codes[i].addr == j->code && pl->codes[i].check == j->check)
			return &pl->codes[i].code;
	t = find_target(pl, j->pid, ret_r);
	if (!t)
		return NULL;
	mem = py_mem_of(t);
	c = &pl->codes[pl->next_code++ % PLACE_CODES_MAX];
	drop_code(c);
	*ret_r = py_code__read(&c->code, &j->rt, &mem, j->code, j->check);
	if (*ret_r)
		return NULL;
	c->pid = j->pid;
	c->addr = j->code;
	c->check = j->check;
	return &c->code;
}

/* --- a line ------------------------------------------------------------------------------------------------------- */

/* Enum ev_place. Nothing is concluded about a graph that the file does not name. */
static uint8_t made_by(const struct generated_line *l)
{
	static const char *const graphs[] = {
		[EV_PLACE_FORWARD] = "forward", [EV_PLACE_BACKWARD] = "backward", [EV_PLACE_INFERENCE] = "inference",
	};

	for (uint8_t i = 1; l->graph && i < sizeof(graphs) / sizeof(graphs[0]); i++)
		if (!strcmp(l->graph, graphs[i]))
			return i | (l->is_output ? EV_PLACE_OUTPUT : 0);
	return 0;
}

void place_look__do(struct place_look *pl, struct place_job *j)
{
	char text[GENERATED_OP_MAX] = EV_PLACE_NOT_KNOWN;
	const struct py_code *code;
	struct generated_line l;

	if (j->is_end) {
		forget(pl, j->pid);
		return;
	}
	code = find_code(pl, j, &j->r);
	if (!code)
		return;
	snprintf(j->file, sizeof(j->file), "%s", code->file);
	j->line = py_code__line(code, j->rt.at->minor, j->instr);
	if (!script_name(code->file))
		return;
	if (j->line && !generated_files__line(pl->files, j->pid, code->file, j->line, &l)) {
		generated__op_text(&l, text, sizeof(text));
		j->made = made_by(&l);
		snprintf(j->buffer, sizeof(j->buffer), "%s%s%s%s%s", l.buffer ? l.buffer : "", l.buffer && l.shape ? " " : "",
			 l.shape ? l.shape : "", l.later ? ", then " : "", l.later ? l.later : "");
		j->nodes = l.nodes ? strdup(l.nodes) : NULL;
	}
	j->text = strdup(text);
	j->r = j->text ? 0 : -ENOMEM;
}
