/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "naming"
#include "live/naming.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "keeper/keeper.h"
#include "live/compiling.h"
#include "live/followed.h"
#include "live/holder_looks.h"
#include "live/looker.h"
#include "live/placing.h"
#include "live/reported_names.h"
#include "model/model.h"

#define FAILS_MAX 3 /* then the interpreter is looked for again: the process may run another program now */

struct named_proc {
	pid_t pid;
	int is_there; /* followed in this turn */
	struct looker by;
	uint64_t next_ns, search_ns; /* when to look, and when to search for modules */
	uint64_t gap_ns, search_gap_ns;
	uint64_t idle_gap_ns; /* while nothing is traced */
	uint32_t modules, optimizers; /* at the last look */
	size_t kept_bytes;	      /* by the reader */
	uint32_t full;		      /* most entries that a look left out */
	pid_t tree;
	unsigned fails;
	uint32_t noted; /* enum note, bits */
	struct reported_names reported;
	struct holder_looks holder_looks;
	struct compiling compiling;
	int has_how; /* the kernel side knows how modules are found */
	bool wants_search; /* its first step or backward asked for a search, which has not begun */
	uint8_t trains;	   /* MODEL_TRAINS_*: what it was seen to do */
	uint8_t searches; /* searches repeated because the last one missed something */
	uint8_t hurries; /* looks made early because the one before had found something new */
};

enum note {
	NOTE_NO_PYTHON = 1, NOTE_TORN = 2, NOTE_CIRCLES = 4, NOTE_FULL = 8, NOTE_UNREADABLE = 16, NOTE_NO_CALL = 32,
	NOTE_NO_BACKWARD = 64, NOTE_NO_THREAD = 128, NOTE_NAMELESS = 256, NOTE_INTERPS = 512,
};

struct naming {
	struct naming_env env;
	struct named_proc procs[NAMING_PROCS_MAX];
	size_t procs_cnt, turn;
	uint64_t last_ns;
	int is_busy, is_over, is_resting;
	bool has_begun; /* for naming__has_begun, once no look is under way */
	bool is_held;	/* naming__hold */
	uint32_t generation; /* of what was sent to the kernel side */
	uint64_t left_out;
	size_t procs_left_out; /* the most processes without a place at one time */
	struct reported_names_env reported_env;
	struct worker *worker;
	struct look_job job; /* the thread's while is_busy */
};

/* --- life -------------------------------------------------------------------------------------------------- */

static void do_look(void *ctx, struct work *w)
{
	(void)ctx;
	look_job__do((struct look_job *)w);
}

int naming__new(struct naming **ret, const struct naming_env *env, struct err *err)
{
	struct naming *n = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return err_set(err, -ENOMEM, "out of memory");
	n->env = *env;
	n->reported_env = (struct reported_names_env){ .tell = env->tell, .model = env->model,
						       .keeper = env->modules ? env->keeper : NULL };
	r = worker__new(&n->worker, do_look, NULL, "reads names", err);
	if (r) {
		naming__free(n);
		return r;
	}
	*ret = n;
	return 0;
}

static void named_proc__done(struct naming *n, struct named_proc *p)
{
	reported_names__done(&p->reported, &n->reported_env);
	py_reader__free(p->by.reader);
	*p = (struct named_proc){ 0 };
}

void naming__free(struct naming *n)
{
	if (!n)
		return;
	(void)worker__end(n->worker, 0);
	if (n->is_busy)
		py_reader__free(n->job.by.reader);
	holder_looks__drop(&n->job);
	compiling__drop(&n->job);
	n->reported_env.keeper = NULL; /* the kernel side may be gone, and forgets by itself */
	for (size_t i = 0; i < n->procs_cnt; i++)
		named_proc__done(n, &n->procs[i]);
	worker__free(n->worker);
	free(n);
}

uint64_t naming__left_out_cnt(const struct naming *n)
{
	return n->left_out;
}

int naming__fd(const struct naming *n)
{
	return worker__fd(n->worker);
}

/* --- which process is next --------------------------------------------------------------------------------- */

static struct named_proc *find_proc(struct naming *n, pid_t pid)
{
	for (size_t i = 0; i < n->procs_cnt; i++)
		if (n->procs[i].pid == pid)
			return &n->procs[i];
	return NULL;
}

static size_t tree_cnt(const struct naming *n, pid_t tree)
{
	size_t cnt = 0;

	for (size_t i = 0; i < n->procs_cnt; i++)
		cnt += n->procs[i].tree == tree;
	return cnt;
}

/* A place for a process; if none is free, one of the largest tree, where that still keeps at least as many. NULL: none. */
static struct named_proc *find_place(struct naming *n, pid_t tree)
{
	struct named_proc *p = &n->procs[n->procs_cnt];
	size_t own = tree_cnt(n, tree), most = own + 1;

	if (n->procs_cnt < NAMING_PROCS_MAX) {
		n->procs_cnt++;
		return p;
	}
	p = NULL;
	for (size_t i = n->procs_cnt; i-- > 0;) {
		size_t cnt = tree_cnt(n, n->procs[i].tree);

		p = cnt > most ? &n->procs[i] : p;
		most = cnt > most ? cnt : most;
	}
	if (p)
		named_proc__done(n, p);
	return p;
}

static void note_left_out(struct naming *n, size_t cnt)
{
	if (cnt <= n->procs_left_out)
		return;
	if (!n->procs_left_out)
		tell__note(&n->env.tell, 0, "names of modules and parameters are read of 64 processes at one time: there are "
					    "more");
	n->left_out += cnt - n->procs_left_out;
	n->procs_left_out = cnt;
}

static void follow_pids(struct naming *n, const pid_t *pids, size_t cnt)
{
	size_t left_out = 0;

	for (size_t i = 0; i < n->procs_cnt; i++)
		n->procs[i].is_there = 0;
	for (size_t i = 0; i < cnt; i++) {
		struct named_proc *p = find_proc(n, pids[i]);

		if (!p) {
			pid_t tree = followed__tree(n->env.followed, pids[i]);

			p = find_place(n, tree);
			if (p)
				*p = (struct named_proc){ .pid = pids[i], .tree = tree, .reported.pid = pids[i],
							  .gap_ns = NAMING_EVERY_NS, .search_gap_ns = NAMING_SEARCH_MIN_NS };
		}
		left_out += !p;
		if (p)
			p->is_there = 1;
	}
	note_left_out(n, left_out);
	for (size_t i = 0; i < n->procs_cnt;) {
		if (n->procs[i].is_there) {
			i++;
			continue;
		}
		named_proc__done(n, &n->procs[i]);
		n->procs[i] = n->procs[--n->procs_cnt];
	}
}

/*
 * What readers keep between looks, so that they need not walk again, is bounded in sum, too: the largest is dropped, and the
 * next look at its process is like a first one.
 */
static void free_readers(struct naming *n)
{
	for (;;) {
		struct named_proc *most = &n->procs[0];
		uint64_t sum = 0;

		for (size_t i = 0; i < n->procs_cnt; i++) {
			sum += n->procs[i].kept_bytes;
			if (n->procs[i].kept_bytes > most->kept_bytes)
				most = &n->procs[i];
		}
		if (sum <= NAMING_BYTES_MAX)
			return;
		py_reader__free(most->by.reader);
		most->by.reader = NULL;
		most->kept_bytes = 0;
	}
}

static void begin_look(struct naming *n, struct named_proc *p, uint64_t now_ns)
{
	n->job = (struct look_job){ .pid = p->pid, .by = p->by, .rest = n->procs_cnt > 1,
				    .kind = p->wants_search || now_ns >= p->search_ns ? PY_LOOK_ALL : PY_LOOK_KNOWN,
				    .wants_how = n->env.modules && !p->has_how };
	p->by.reader = NULL; /* the thread's for now */
	p->wants_search = false;
	n->last_ns = now_ns;
	n->is_busy = 1;
	worker__add(n->worker, &n->job.work);
}

/* Finds the holder of what grows, if anything does. */
static int begin_holder_look(struct naming *n, uint64_t now_ns)
{
	for (size_t i = 0; i < n->procs_cnt; i++) {
		struct named_proc *p = &n->procs[(n->turn + i) % n->procs_cnt];
		struct look_job job = { .pid = p->pid, .by = p->by };

		if (!p->by.reader || !holder_looks__begin(&p->holder_looks, n->env.model, p->pid, &job, now_ns))
			continue;
		n->job = job;
		p->by.reader = NULL;
		n->last_ns = now_ns;
		n->is_busy = 1;
		worker__add(n->worker, &n->job.work);
		return 1;
	}
	return 0;
}

/* For one process after the other, without a pause: such a look reads a few words. */
static int begin_compiling(struct naming *n, uint64_t now_ns)
{
	for (size_t i = 0; i < n->procs_cnt; i++) {
		struct named_proc *p = &n->procs[i];
		struct look_job job = { .pid = p->pid, .by = p->by };

		if (!compiling__begin(&p->compiling, &p->by, &job, now_ns))
			continue;
		n->job = job;
		p->by.reader = NULL;
		n->is_busy = 1;
		worker__add(n->worker, &n->job.work);
		return 1;
	}
	return 0;
}

static void begin_next(struct naming *n, uint64_t now_ns)
{
	if (n->is_over || begin_compiling(n, now_ns) || begin_holder_look(n, now_ns))
		return;
	for (size_t i = 0; i < n->procs_cnt; i++) {
		struct named_proc *p = &n->procs[(n->turn + i) % n->procs_cnt];

		if (now_ns < p->next_ns && !p->wants_search)
			continue;
		n->turn = (n->turn + i + 1) % n->procs_cnt;
		begin_look(n, p, now_ns);
		return;
	}
}

void naming__turn(struct naming *n, const pid_t *pids, size_t cnt, uint64_t now_ns)
{
	if (n->is_busy || n->is_held)
		return;
	if (n->last_ns && now_ns < n->last_ns + NAMING_EVERY_NS * 9 / 10) /* timers are not exact */
		return;
	follow_pids(n, pids, cnt);
	begin_next(n, now_ns);
}

void naming__hurry(struct naming *n)
{
	if (!n)
		return;
	n->last_ns = 0;
	for (size_t i = 0; i < n->procs_cnt; i++)
		n->procs[i].next_ns = 0;
}

void naming__hold(struct naming *n, bool is_held)
{
	if (!n)
		return;
	n->has_begun |= n->is_held && !is_held;
	n->is_held = is_held;
}

bool naming__has_begun(struct naming *n)
{
	bool is_due = false;

	for (size_t i = 0; n && i < n->procs_cnt; i++) {
		struct named_proc *p = &n->procs[i];
		uint8_t seen = p->trains;

		p->trains |= (uint8_t)model__trains(n->env.model, (uint32_t)p->pid);
		if (p->trains == seen)
			continue;
		p->searches = 0;
		p->wants_search = !p->optimizers; /* otherwise they and modules were found already */
		is_due |= p->wants_search;
	}
	if (n)
		n->has_begun |= is_due;
	if (!n || !n->has_begun || n->is_busy || n->is_held)
		return false;
	n->has_begun = false;
	n->last_ns = 0;
	return true;
}

bool naming__count_of(const struct naming *n, pid_t pid, struct step_count_place *ret)
{
	const struct named_proc *p = find_proc((struct naming *)n, pid);

	if (p)
		*ret = p->reported.count;
	return p && ret->addr;
}

/* --- what a look found, besides names --------------------------------------------------------------------- */

static void note(struct naming *n, struct named_proc *p, enum note which, const char *text)
{
	if (p->noted & which)
		return;
	p->noted |= which;
	tell__note(&n->env.tell, p->pid, text);
}

static void note_gaps(struct naming *n, struct named_proc *p, const struct py_look *look)
{
	if (look->circles)
		note(n, p, NOTE_CIRCLES, "modules that hold each other in a circle have no names of their own: which of them "
					 "is the root cannot be known");
	uint32_t full = look->full + p->reported.unnamed;

	if (full > p->full) {
		n->left_out += full - p->full;
		p->full = full;
	}
	if (full)
		note(n, p, NOTE_FULL, "this process has more modules and tensors than names are read of (docs/names.md): the "
				     "rest have none");
	if (look->nameless)
		note(n, p, NOTE_NAMELESS, "some modules or parameters have names that cannot be shown: control characters, "
					  "or more than 255 bytes");
	if (look->others)
		note(n, p, NOTE_INTERPS, "several interpreters in the process have torch: names and modules are the oldest "
					 "one's");
	if (look->torn > look->modules / 10)
		note(n, p, NOTE_TORN, "some modules could not be read and have no names: their attributes are not as "
				      "torch.nn.Module's, or changed at every look");
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void naming__rest(struct naming *n, int is_resting)
{
	n->is_resting = is_resting;
}

/* The process trains, so it has an optimizer, or soon will: after a failed or incomplete search a few more follow. */
static void search_again(struct named_proc *p, const struct look_job *j)
{
	if (j->kind != PY_LOOK_ALL || !p->trains || p->searches == NAMING_HURRIES)
		return;
	p->searches++;
	p->wants_search = true;
}

/* When to look again, and when to search. */
static void schedule(const struct naming *n, struct named_proc *p, const struct look_job *j, uint64_t now_ns)
{
	const struct py_look *l = &j->look;
	int is_new = l->modules != p->modules || l->optimizers != p->optimizers;
	uint64_t look_ns = l->cpu_ns - l->search_cpu_ns;
	uint64_t rest_ns = max_u64(NAMING_EVERY_NS, min_u64(look_ns * NAMING_REST, NAMING_GAP_MAX_NS));

	p->gap_ns = l->changed || is_new ? rest_ns : max_u64(rest_ns, min_u64(p->gap_ns * 2, NAMING_GAP_MAX_NS));
	if (is_new && l->held_back > l->reported_cnt && p->hurries < NAMING_HURRIES) {
		p->hurries++;
		p->gap_ns = NAMING_EVERY_NS;
	}
	if (n->is_resting) { /* gradients come and go, and their names are not needed */
		p->idle_gap_ns = is_new ? rest_ns : max_u64(rest_ns, min_u64(p->idle_gap_ns * 2, NAMING_REST_GAP_NS));
		p->gap_ns = p->idle_gap_ns;
	}
	p->next_ns = now_ns + p->gap_ns;
	if (is_new)
		p->search_gap_ns = NAMING_SEARCH_MIN_NS;
	else if (j->kind == PY_LOOK_ALL)
		p->search_gap_ns = min_u64(p->search_gap_ns * 2, NAMING_SEARCH_MAX_NS);
	if (j->kind == PY_LOOK_ALL)
		p->search_ns = now_ns + max_u64(p->search_gap_ns,
						min_u64(l->search_cpu_ns * NAMING_REST, NAMING_SEARCH_MAX_NS));
	else if (is_new)
		p->search_ns = min_u64(p->search_ns, now_ns + p->search_gap_ns);
	p->modules = l->modules;
	p->optimizers = l->optimizers;
	p->wants_search &= !p->optimizers; /* a look that was under way has found them */
	if (!p->optimizers || l->is_cut)
		search_again(p, j);
}

static void failed(struct naming *n, struct named_proc *p, const struct look_job *j, uint64_t now_ns)
{
	char text[512];

	p->gap_ns = min_u64(max_u64(p->gap_ns * 2, NAMING_EVERY_NS), NAMING_GAP_MAX_NS);
	p->next_ns = now_ns + p->gap_ns;
	log_debug("process %d: %s %s", (int)p->pid, strerror(-j->r), j->err.msg);
	search_again(p, j);
	if (j->r == -ENOTSUP) {
		snprintf(text, sizeof(text), "names of modules and parameters are not known: %s", j->err.msg);
		note(n, p, NOTE_NO_PYTHON, text);
	}
	if (++p->fails < FAILS_MAX)
		return;
	p->fails = 0;
	if (p->by.reader && j->r == -EAGAIN)
		note(n, p, NOTE_UNREADABLE, "names of modules and parameters could not be read for a time: the interpreter's "
					    "memory is not as expected");
	py_reader__free(p->by.reader);
	p->by.reader = NULL;
	p->kept_bytes = 0;
	p->has_how = 0; /* possibly of another program */
	p->compiling = (struct compiling){ 0 };
}

/* From now on modules can be reported. */
static void tell_how(struct naming *n, struct named_proc *p, struct look_job *j)
{
	j->how.generation = ++n->generation;
	if (keeper__modules(n->env.keeper, p->pid, &j->how))
		log_debug("process %d: no room for its modules", (int)p->pid);
	p->has_how = 1;
	if (n->env.placing)
		placing__python(n->env.placing, p->pid, &j->by.rt);
	if (!j->how.seq.module)
		note(n, p, NOTE_NO_BACKWARD, "blocks of backward belong to no module: where torch numbers its nodes is not to "
					     "be seen");
}

static void note_no_how(struct naming *n, struct named_proc *p, const struct look_job *j)
{
	if (j->no_call)
		note(n, p, NOTE_NO_CALL, "blocks belong to no module: torch.nn.Module is called in a way that is not known");
	if (j->no_thread)
		note(n, p, NOTE_NO_THREAD, "blocks belong to no module yet: no thread of Python's was found");
}

void naming__done(struct naming *n, uint64_t now_ns)
{
	struct look_job *j = &n->job;
	struct named_proc *p;

	if (!worker__done(n->worker))
		return;
	n->is_busy = 0;
	p = find_proc(n, j->pid);
	if (!p) {
		py_reader__free(j->by.reader);
		holder_looks__drop(j);
		compiling__drop(j);
		return;
	}
	p->by = j->by;
	if (j->compiles) {
		compiling__end(&p->compiling, j, &n->env.tell);
		compiling__drop(j);
		begin_next(n, now_ns);
		return;
	}
	if (j->held) {
		holder_looks__end(j, &n->env.tell);
		holder_looks__drop(j);
		return;
	}
	if (j->has_how) {
		tell_how(n, p, j);
		if (!n->is_over)
			begin_look(n, p, now_ns);
		return;
	}
	note_no_how(n, p, j);
	if (j->r) {
		failed(n, p, j, now_ns);
		return;
	}
	p->fails = 0;
	log_debug("process %d: %zu names of %u modules and %u optimizers, %u held back, %u torn%s, in %.1f ms", (int)j->pid,
		  j->look.reported_cnt, j->look.modules, j->look.optimizers, j->look.held_back, j->look.torn,
		  j->look.is_cut ? ", search cut" : "", (double)j->look.took_ns / 1e6);
	reported_names__look(&p->reported, &n->reported_env, p->by.reader, &j->look, now_ns);
	note_gaps(n, p, &j->look);
	schedule(n, p, j, now_ns);
	p->kept_bytes = j->look.kept_bytes;
	free_readers(n);
}

void naming__finish(struct naming *n)
{
	uint64_t until = now_ns() + NAMING_FINISH_NS;

	if (!n)
		return;
	n->is_over = 1;
	while (n->is_busy && now_ns() < until) {
		struct pollfd fd = { .fd = worker__fd(n->worker), .events = POLLIN };

		(void)poll(&fd, 1, NAMING_FINISH_NS / 10000000);
		naming__done(n, now_ns());
	}
	for (size_t i = 0; i < n->procs_cnt; i++) {
		struct named_proc *p = &n->procs[i];
		struct look_job job = { .pid = p->pid, .by = p->by };

		if (!compiling__begin(&p->compiling, &p->by, &job, UINT64_MAX))
			continue;
		compiling__look(&job);
		compiling__end(&p->compiling, &job, &n->env.tell);
		compiling__drop(&job);
	}
}
