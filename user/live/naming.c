/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "naming"
#include "live/naming.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/quota.h"
#include "base/seed.h"
#include "memtrace/shared.h"
#include "model/model.h"
#include "model/core/tensors.h"
#include "plan/plan.h"
#include "python/reader.h"
#include "python/runtime.h"
#include "stack/capture.h"
#include "target/target.h"

#define NAMED_PART 4 /* of the modules that the kernel side knows: a process alone has 65,536 */
#define FAILS_MAX 3 /* then the interpreter is looked for again: the process may have become another program */

/* A module as ids, and as it was said last. */
struct known_module {
	uint64_t obj, hash; /* 0: free */
	name_id path, root, class;
	uint8_t is_named; /* the kernel side knows that it has a name */
	uint8_t seen;	  /* in this look */
};

/* The names of one storage as ids, so that they are not looked up at every look. */
struct known {
	uint64_t data, hash;
	name_id path, root, type, key, of;
};

struct named_proc {
	pid_t pid;
	int is_there; /* followed in this turn */
	struct py_reader *reader;
	uint64_t next_ns, search_ns; /* when to look, and when to search for modules */
	uint64_t gap_ns, search_gap_ns;
	uint32_t modules, optimizers; /* at the last look */
	size_t kept_bytes;	      /* by the reader */
	uint32_t full;		      /* the most that a look left out */
	uint32_t named_cnt, unnamed;  /* modules that the kernel side knows to have names; that had no room there this time */
	pid_t tree;
	unsigned fails;
	uint32_t noted; /* enum note, bits */
	struct known *known; /* by data pointer; a power of two */
	size_t known_cap;
	struct known_module *modules_known; /* by object; a power of two */
	size_t modules_cap;
	int has_how; /* the kernel side knows how modules are found */
	struct py_runtime rt; /* with a reader */
	struct torch_tls tls;
	uint16_t node_seq;
};

enum note {
	NOTE_NO_PYTHON = 1, NOTE_TORN = 2, NOTE_CIRCLES = 4, NOTE_FULL = 8, NOTE_UNREADABLE = 16, NOTE_NO_CALL = 32,
	NOTE_NO_BACKWARD = 64, NOTE_NO_THREAD = 128, NOTE_NAMELESS = 256, NOTE_INTERPS = 512,
};

/* What the second thread is given, and gives back. */
struct job {
	pid_t pid;
	struct py_reader *reader; /* NULL: to be made */
	enum py_look_kind kind;
	int rest; /* memory is given back afterwards */
	int r;
	struct err err;
	struct py_look look;
	struct py_runtime rt; /* with a reader, of its process */
	struct torch_tls tls;
	uint16_t node_seq;
	struct mt_module_proc how;
	int wants_how, has_how; /* has_how: nothing but this was done */
	int no_call, no_thread; /* why not */
};

struct naming {
	struct naming_env env;
	struct named_proc procs[NAMING_PROCS_MAX];
	size_t procs_cnt, turn;
	uint64_t last_ns;
	int fd, is_busy, has_thread;
	uint32_t generation; /* of what the kernel side is told */
	uint64_t left_out;
	uint32_t named_cnt; /* of all */
	size_t procs_left_out; /* the most that had no place at one time */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int has_job, stop; /* under the lock */
	struct job job;	   /* the thread's while is_busy */
};

/* --- the second thread ----------------------------------------------------------------------------------- */

static int open_reader(struct job *j)
{
	struct py_runtime rt;
	struct py_mem mem;
	struct target *t;
	struct plan *plan;
	int r = target__open(&t, j->pid, &j->err);

	if (r < 0)
		return r;
	r = plan__tensors(&plan, t, &j->err);
	if (r) {
		target__free(t);
		return r;
	}
	mem = py_mem_of(t);
	r = py_runtime__find(&rt, t, &mem, &j->err);
	if (r == -ENOENT)
		r = err_set(&j->err, -ENOTSUP, "no Python with symbols is mapped");
	if (!r) {
		struct py_reader_opts opts = { .target = t, .minor = rt.at->minor,
					       .interp_head = rt.addr + rt.at->interp_head,
					       .interp_next = rt.at->interp_next, .layout = plan->flow_layout.at,
					       .vtables = plan->flow_vtables,
					       .vtables_cnt = plan->flow_vtables_cnt };

		r = py_reader__new(&j->reader, &opts, &j->err);
		j->rt = rt;
		j->node_seq = plan->flow_layout.node_seq;
		plan__torch_tls(&j->tls, t);
	}
	plan__free(plan);
	target__free(t);
	return r;
}

/* A variable of each thread: which library's, as the loader wrote it. */
static struct mt_tls_var tls_var(const struct py_mem *mem, const struct tls_place *at)
{
	uint64_t slot[2];

	if (!at->slot || py_mem__read(mem, at->slot, slot, sizeof(slot)))
		return (struct mt_tls_var){ 0 };
	return (struct mt_tls_var){ slot[0], slot[1] + at->add };
}

/* How the kernel side finds modules. It need not wait for names: they are told when they are known. */
static void find_how(struct job *j)
{
	struct target *t = NULL;
	struct py_mem mem;
	struct py_tsd tsd;
	uint64_t call;
	int r = py_reader__call(j->reader, j->rt.code_type, &call);

	j->no_call = r == -ENOTSUP;
	if (r || target__open(&t, j->pid, NULL))
		return;
	mem = py_mem_of(t);
	r = py_runtime__tsd(&j->rt, t, &mem, &tsd);
	if (!r) {
		j->how = (struct mt_module_proc){ .py = capture_how(j->rt.at, &tsd), .call = call,
						  .frame_self = j->rt.at->frame_self, .seq = tls_var(&mem, &j->tls.seq),
						  .grad = tls_var(&mem, &j->tls.grad), .node_seq = j->node_seq };
		j->has_how = 1;
	}
	j->no_thread = !j->has_how;
	target__free(t);
}

static void do_job(struct job *j)
{
	j->r = j->reader ? 0 : open_reader(j);
	if (!j->r && j->wants_how)
		find_how(j);
	if (j->has_how)
		return;
	if (!j->r)
		j->r = py_reader__look(j->reader, j->kind, &j->look);
	if (j->reader && j->rest)
		py_reader__rest(j->reader);
}

static void *work(void *arg)
{
	struct naming *n = arg;

	pthread_mutex_lock(&n->lock);
	for (;;) {
		while (!n->has_job && !n->stop)
			pthread_cond_wait(&n->wake, &n->lock);
		if (n->stop)
			break;
		n->has_job = 0;
		pthread_mutex_unlock(&n->lock);
		do_job(&n->job);
		(void)!write(n->fd, &(uint64_t){ 1 }, sizeof(uint64_t));
		pthread_mutex_lock(&n->lock);
	}
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

/* --- life -------------------------------------------------------------------------------------------------- */

int naming__new(struct naming **ret, const struct naming_env *env, struct err *err)
{
	struct naming *n = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return err_set(err, -ENOMEM, "out of memory");
	n->env = *env;
	pthread_mutex_init(&n->lock, NULL);
	pthread_cond_init(&n->wake, NULL);
	n->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = n->fd < 0 ? -errno : -pthread_create(&n->thread, NULL, work, n);
	if (r) {
		naming__free(n);
		return err_set(err, r, "a thread that reads names: %s", strerror(-r));
	}
	n->has_thread = 1;
	*ret = n;
	return 0;
}

/* What finds no room is of a module around it until there is some, which the next look tries. */
static void set_named(struct naming *n, struct named_proc *p, struct known_module *k, int is_named)
{
	const struct naming_env *env = &n->env;

	if (!env->modules || k->is_named == is_named)
		return;
	if (is_named && !quota_allows(p->named_cnt, n->named_cnt, MT_MODULES_NAMED_MAX, NAMED_PART)) {
		p->unnamed++;
		return;
	}
	if (env->module(env->ctx, p->pid, k->obj, is_named) < 0 && is_named)
		return;
	k->is_named = (uint8_t)is_named;
	p->named_cnt = is_named ? p->named_cnt + 1 : p->named_cnt - 1;
	n->named_cnt = is_named ? n->named_cnt + 1 : n->named_cnt - 1;
}

static void forget_modules(struct naming *n, struct named_proc *p)
{
	for (size_t i = 0; i < p->modules_cap; i++)
		set_named(n, p, &p->modules_known[i], 0);
	if (p->modules_cap)
		(void)(n->env.modules && n->env.module(n->env.ctx, p->pid, 0, 0));
	free(p->modules_known);
	p->modules_known = NULL;
	p->modules_cap = 0;
}

static void named_proc__done(struct naming *n, struct named_proc *p)
{
	forget_modules(n, p);
	py_reader__free(p->reader);
	free(p->known);
	*p = (struct named_proc){ 0 };
}

void naming__free(struct naming *n)
{
	if (!n)
		return;
	if (n->has_thread) {
		pthread_mutex_lock(&n->lock);
		n->stop = 1;
		pthread_cond_signal(&n->wake);
		pthread_mutex_unlock(&n->lock);
		pthread_join(n->thread, NULL);
	}
	if (n->is_busy)
		py_reader__free(n->job.reader);
	n->env.modules = NULL; /* the kernel side may be gone, and forgets by itself */
	for (size_t i = 0; i < n->procs_cnt; i++)
		named_proc__done(n, &n->procs[i]);
	if (n->fd >= 0)
		close(n->fd);
	pthread_cond_destroy(&n->wake);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

uint64_t naming__left_out_cnt(const struct naming *n)
{
	return n->left_out;
}

int naming__fd(const struct naming *n)
{
	return n->fd;
}

/* --- whose turn it is ---------------------------------------------------------------------------------------- */

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

/* A place for a process; where there is none, that of one whose tree has most and would not have less. NULL: none. */
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
		n->env.push(n->env.ctx, (struct event){
			.kind = EV_NOTE, .name = names__add(n->env.names, "names of modules and parameters are read of 64 "
									  "processes at one time: there are more") });
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
			pid_t tree = n->env.tree(n->env.ctx, pids[i]);

			p = find_place(n, tree);
			if (p)
				*p = (struct named_proc){ .pid = pids[i], .tree = tree, .gap_ns = NAMING_EVERY_NS,
							  .search_gap_ns = NAMING_SEARCH_MIN_NS };
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
 * What readers keep so that a look need not walk again has a bound, too: the largest goes, and its process is looked at as if
 * for the first time when it has its turn.
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
		py_reader__free(most->reader);
		most->reader = NULL;
		most->kept_bytes = 0;
	}
}

static void begin_look(struct naming *n, struct named_proc *p, uint64_t now_ns)
{
	n->job = (struct job){ .pid = p->pid, .reader = p->reader, .rest = n->procs_cnt > 1,
			       .kind = now_ns >= p->search_ns ? PY_LOOK_ALL : PY_LOOK_KNOWN,
			       .rt = p->rt, .tls = p->tls, .node_seq = p->node_seq,
			       .wants_how = n->env.modules && !p->has_how };
	p->reader = NULL; /* the thread's for now */
	n->last_ns = now_ns;
	n->is_busy = 1;
	pthread_mutex_lock(&n->lock);
	n->has_job = 1;
	pthread_cond_signal(&n->wake);
	pthread_mutex_unlock(&n->lock);
}

void naming__turn(struct naming *n, const pid_t *pids, size_t cnt, uint64_t now_ns)
{
	if (n->is_busy || (n->last_ns && now_ns < n->last_ns + NAMING_EVERY_NS * 9 / 10)) /* timers are not exact */
		return;
	follow_pids(n, pids, cnt);
	for (size_t i = 0; i < n->procs_cnt; i++) {
		struct named_proc *p = &n->procs[(n->turn + i) % n->procs_cnt];

		if (now_ns < p->next_ns)
			continue;
		n->turn = (n->turn + i + 1) % n->procs_cnt;
		begin_look(n, p, now_ns);
		return;
	}
}

/* --- what a look found ------------------------------------------------------------------------------------- */

static void note(struct naming *n, struct named_proc *p, enum note which, const char *text)
{
	if (p->noted & which)
		return;
	p->noted |= which;
	n->env.push(n->env.ctx, (struct event){ .kind = EV_NOTE, .pid = (uint32_t)p->pid,
						.name = names__add(n->env.names, text) });
}

/* The entry of a storage; the table is as large as a look's result asks for. */
static struct known *find_known(struct named_proc *p, uint64_t data)
{
	size_t i = (size_t)hash_u64(data) & (p->known_cap - 1);

	while (p->known[i].data && p->known[i].data != data)
		i = (i + 1) & (p->known_cap - 1);
	return &p->known[i];
}

static int make_known(struct named_proc *p, size_t cnt)
{
	size_t cap = 1024;

	while (cap < cnt * 4)
		cap *= 2;
	if (p->known_cap >= cap && p->known) {
		size_t used = 0;

		for (size_t i = 0; i < p->known_cap; i++)
			used += p->known[i].data != 0;
		if (used + cnt <= p->known_cap / 2)
			return 0;
	}
	free(p->known); /* gradients come and go: begun anew now and then */
	p->known = calloc(cap, sizeof(*p->known));
	p->known_cap = p->known ? cap : 0;
	return p->known ? 0 : -ENOMEM;
}

/* What the process chose. */
static name_id add(const struct naming *n, pid_t pid, const char *text)
{
	return names__add_of(n->env.names, (uint32_t)pid, text, strlen(text));
}

static void learn(struct naming *n, pid_t pid, const struct py_reader *r, const struct py_told *t, struct known *k)
{
	char type[PY_TYPE_TEXT_MAX];

	if (k->data && k->hash == t->hash)
		return;
	py_storage__type_text(&t->name->at, type);
	*k = (struct known){ .data = t->name->at.data, .hash = t->hash,
			     .path = add(n, pid, py_reader__text(r, t->name->path)),
			     .root = add(n, pid, t->root), .type = add(n, pid, type),
			     .key = add(n, pid, py_reader__text(r, t->name->key)),
			     .of = t->of ? add(n, pid, t->of) : NAME_NONE };
}

static int is_said(const struct naming *n, const struct named_proc *p, const struct py_told *t, const struct known *k)
{
	struct tensor had;
	int r = model__tensor_at(n->env.model, (uint32_t)p->pid, k->data, t->name->at.bytes, &had);

	return r < 0 || (r && had.path.v == k->path.v && had.root.v == k->root.v && had.type.v == k->type.v &&
			 had.key.v == k->key.v && had.of.v == k->of.v && had.kind == t->name->kind);
}

/* The entry of a module. */
static struct known_module *find_module(struct named_proc *p, uint64_t obj)
{
	size_t i = (size_t)hash_u64(obj) & (p->modules_cap - 1);

	while (p->modules_known[i].obj && p->modules_known[i].obj != obj)
		i = (i + 1) & (p->modules_cap - 1);
	return &p->modules_known[i];
}

/* Begun anew when half full: modules that come and go leave their entries, and then all are said again. */
static int make_modules(struct naming *n, struct named_proc *p, size_t cnt)
{
	size_t cap = 256, used = 0;

	for (size_t i = 0; i < p->modules_cap; i++)
		used += p->modules_known[i].obj != 0;
	if (p->modules_cap && used + cnt <= p->modules_cap / 2)
		return 0;
	while (cap < cnt * 4)
		cap *= 2;
	forget_modules(n, p);
	p->modules_known = calloc(cap, sizeof(*p->modules_known));
	p->modules_cap = p->modules_known ? cap : 0;
	return p->modules_known ? 0 : -ENOMEM;
}

/* What is not there any more has no name; a look that could not read everything tells nothing about that. */
static void forget_gone(struct naming *n, struct named_proc *p, const struct py_look *look)
{
	int has_names = look->told_modules_cnt != 0;

	for (size_t i = 0; i < p->modules_cap; i++) {
		struct known_module *k = &p->modules_known[i];

		if (!k->seen && !look->torn)
			set_named(n, p, k, 0);
		k->seen = 0;
	}
	if (n->env.modules && has_names)
		(void)n->env.module(n->env.ctx, p->pid, 0, 1);
}

static void say_modules(struct naming *n, struct named_proc *p, const struct py_reader *r, const struct py_look *look,
			uint64_t now_ns)
{
	if (make_modules(n, p, look->told_modules_cnt))
		return;
	for (size_t i = 0; i < look->told_modules_cnt; i++) {
		const struct py_told_module *t = &look->told_modules[i];
		struct known_module *k = find_module(p, t->at->obj);
		int is_same = k->obj && k->hash == t->hash;

		if (!is_same)
			*k = (struct known_module){ .obj = t->at->obj, .hash = t->hash, .is_named = k->is_named,
						    .path = add(n, p->pid, py_reader__text(r, t->at->path)),
						    .root = add(n, p->pid, t->root),
						    .class = add(n, p->pid, t->class) };
		k->seen = 1;
		set_named(n, p, k, !t->at->is_bare);
		if (is_same)
			continue;
		n->env.push(n->env.ctx, (struct event){
			.ts_ns = now_ns, .kind = EV_MODULE, .pid = (uint32_t)p->pid, .addr = k->obj, .size = t->at->parent,
			.name = k->path, .root = k->root, .type = k->class });
	}
	forget_gone(n, p, look);
}

static void say(struct naming *n, struct named_proc *p, const struct py_reader *r, const struct py_look *look, uint64_t now_ns)
{
	uint64_t age = (now_ns - look->begin_ns) / EV_TENSOR_AGE_NS + 1;

	p->unnamed = 0;
	say_modules(n, p, r, look, now_ns);
	if (age > UINT8_MAX || make_known(p, look->told_cnt)) /* too long ago: the next look says it */
		return;
	for (size_t i = 0; i < look->told_cnt; i++) {
		const struct py_told *t = &look->told[i];
		struct known *k = find_known(p, t->name->at.data);

		learn(n, p->pid, r, t, k);
		if (is_said(n, p, t, k))
			continue;
		if (k->of.v)
			n->env.push(n->env.ctx, (struct event){ .ts_ns = now_ns, .kind = EV_TENSOR_OF, .pid = (uint32_t)p->pid,
								.addr = k->data, .name = k->of });
		n->env.push(n->env.ctx, (struct event){
			.ts_ns = now_ns, .kind = EV_TENSOR, .pid = (uint32_t)p->pid, .dev = t->name->at.dev, .addr = k->data,
			.size = t->name->at.bytes, .name = k->path, .root = k->root, .type = k->type, .key = k->key,
			.flags = t->name->kind, .depth = (uint8_t)age });
	}
}

static void note_gaps(struct naming *n, struct named_proc *p, const struct py_look *look)
{
	if (look->circles)
		note(n, p, NOTE_CIRCLES, "modules that hold each other in a circle have no names of their own: which of them "
					 "is the root cannot be told");
	uint32_t full = look->full + p->unnamed;

	if (full > p->full) {
		n->left_out += full - p->full;
		p->full = full;
	}
	if (full)
		note(n, p, NOTE_FULL, "this process has more modules and tensors than names are read of (docs/names.md): the "
				     "rest have none");
	if (look->nameless)
		note(n, p, NOTE_NAMELESS, "some modules or parameters are called what cannot be told: control characters, "
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

/* When to look again, and when to search. */
static void schedule(struct named_proc *p, const struct job *j, uint64_t now_ns)
{
	const struct py_look *l = &j->look;
	int is_new = l->modules != p->modules || l->optimizers != p->optimizers;
	uint64_t look_ns = l->cpu_ns - l->search_cpu_ns;
	uint64_t rest_ns = max_u64(NAMING_EVERY_NS, min_u64(look_ns * NAMING_REST, NAMING_GAP_MAX_NS));

	p->gap_ns = l->changed || is_new ? rest_ns : max_u64(rest_ns, min_u64(p->gap_ns * 2, NAMING_GAP_MAX_NS));
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
}

static void failed(struct naming *n, struct named_proc *p, const struct job *j, uint64_t now_ns)
{
	char text[512];

	p->gap_ns = min_u64(max_u64(p->gap_ns * 2, NAMING_EVERY_NS), NAMING_GAP_MAX_NS);
	p->next_ns = now_ns + p->gap_ns;
	log_debug("process %d: %s %s", (int)p->pid, strerror(-j->r), j->err.msg);
	if (j->r == -ENOTSUP) {
		snprintf(text, sizeof(text), "names of modules and parameters are not known: %s", j->err.msg);
		note(n, p, NOTE_NO_PYTHON, text);
	}
	if (++p->fails < FAILS_MAX)
		return;
	p->fails = 0;
	if (p->reader && j->r == -EAGAIN)
		note(n, p, NOTE_UNREADABLE, "names of modules and parameters could not be read for a time: the interpreter's "
					    "memory is not as expected");
	py_reader__free(p->reader);
	p->reader = NULL;
	p->kept_bytes = 0;
	p->has_how = 0; /* of another program, perhaps */
}

/* Modules can be told from now on. */
static void tell_how(struct naming *n, struct named_proc *p, struct job *j)
{
	j->how.generation = ++n->generation;
	if (n->env.modules(n->env.ctx, p->pid, &j->how))
		log_debug("process %d: no room for its modules", (int)p->pid);
	p->has_how = 1;
	if (!j->how.seq.module)
		note(n, p, NOTE_NO_BACKWARD, "blocks of backward belong to no module: where torch numbers its nodes is not to "
					     "be seen");
}

static void note_no_how(struct naming *n, struct named_proc *p, const struct job *j)
{
	if (j->no_call)
		note(n, p, NOTE_NO_CALL, "blocks belong to no module: torch.nn.Module is called in a way that is not known");
	if (j->no_thread)
		note(n, p, NOTE_NO_THREAD, "blocks belong to no module yet: no thread of Python's was found");
}

void naming__done(struct naming *n, uint64_t now_ns)
{
	struct job *j = &n->job;
	struct named_proc *p;
	uint64_t times;

	if (read(n->fd, &times, sizeof(times)) < 0 || !n->is_busy)
		return;
	n->is_busy = 0;
	p = find_proc(n, j->pid);
	if (!p) {
		py_reader__free(j->reader);
		return;
	}
	p->reader = j->reader;
	p->rt = j->rt;
	p->tls = j->tls;
	p->node_seq = j->node_seq;
	if (j->has_how) {
		tell_how(n, p, j);
		begin_look(n, p, now_ns);
		return;
	}
	note_no_how(n, p, j);
	if (j->r) {
		failed(n, p, j, now_ns);
		return;
	}
	p->fails = 0;
	log_debug("process %d: %zu names of %u modules, %u held back, %u torn, in %.1f ms", (int)j->pid, j->look.told_cnt,
		  j->look.modules, j->look.held_back, j->look.torn, (double)j->look.took_ns / 1e6);
	say(n, p, p->reader, &j->look, now_ns);
	note_gaps(n, p, &j->look);
	schedule(p, j, now_ns);
	p->kept_bytes = j->look.kept_bytes;
	free_readers(n);
}
