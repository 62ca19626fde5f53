/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/map.h"
#include "python/compiles.h"
#include "python/gc.h"
#include "python/holders.h"
#include "python/object_head.h"
#include "python/runtime.h"
#include "target/target.h"

/* A root that has had names. Its label stays as long as it exists. */
struct root {
	uint64_t obj;
	char class[PY_TEXT_MAX], label[PY_TEXT_MAX + 16];
	uint32_t ordinal; /* among those of this class, from 1 */
	uint8_t seen;	  /* in this look */
	uint8_t was_seen; /* in the look before */
	uint8_t is_sure;  /* found to be one by a look that read every module, or by two in a row that did so together */
};

/* The last look's finding at an address. */
struct finding {
	uint64_t data, hash;
};

struct py_reader {
	struct target *target; /* held; NULL: none */
	struct py py;
	struct py_torch torch;
	struct flow_vtable *vtables;
	struct walk walk;
	uint64_t interp_head, interp_next;
	uint32_t others; /* interpreters with torch that are not looked at */
	uint64_t *modules, *optimizers;
	size_t modules_cnt, optimizers_cnt;
	struct root *roots;
	size_t roots_cnt;
	struct map before;
	int has_before;
	int was_whole; /* the last look read every module: roots that it did not see are gone */
	uint64_t torn_at[WALK_TORN_KEPT]; /* those that it could not read */
	uint32_t torn_cnt;
	int has_looked;
	int is_all_read; /* every module was read in this look or the one before */
	int walks_always;
	int can_be_same; /* the last walk's names would be the next one's, if nothing changes */
	int is_same;	 /* this look's names are that walk's */
	unsigned unlike; /* looks in a row that had to walk */
	struct py_reported *reported;
	size_t reported_cap;
	struct py_reported_module *modules_reported;
	size_t modules_reported_cap;
	struct map classes; /* struct class_name */
	uint64_t compiles; /* where torch.compile's list is; 0: nowhere */
};

#define UNLIKE_MAX 8
#define READER_CLASSES_MAX 2048u

/* `before` has a row or two for each name and module, and up to three slots of half a row. */
_Static_assert(sizeof(struct py_reported) + 4 * sizeof(struct finding) <= WALK_REPORTED_BYTES &&
		       sizeof(struct py_reported_module) + 4 * sizeof(struct finding) <= WALK_REPORTED_BYTES,
	       "what is kept of a name outside the walk");

struct class_name {
	uint64_t type; /* 0: free */
	char *text;
};

/* --- life ------------------------------------------------------------------------------------------------- */

int py_reader__new(struct py_reader **ret, const struct py_reader_opts *opts, struct err *err)
{
	struct py_reader *r = calloc(1, sizeof(*r));
	struct py_mem mem = opts->mem;
	int e = -ENOMEM;

	if (r && opts->target) {
		target__hold(opts->target);
		r->target = opts->target;
		mem = py_mem_of(r->target);
	}
	if (r)
		e = py__init(&r->py, &mem, opts->minor);
	if (!e) {
		r->vtables = calloc(opts->vtables_cnt + 1, sizeof(*r->vtables));
		r->roots = calloc(READER_ROOTS_MAX, sizeof(*r->roots));
		r->classes = MAP_OF(struct class_name);
		r->before = MAP_OF(struct finding);
		e = r->vtables && r->roots ? 0 : -ENOMEM;
	}
	if (e) {
		py_reader__free(r);
		return err_set(err, e, e == -ENOTSUP ? "Python 3.%u is not known" : "out of memory", opts->minor);
	}
	memcpy(r->vtables, opts->vtables, opts->vtables_cnt * sizeof(*r->vtables));
	qsort(r->vtables, opts->vtables_cnt, sizeof(*r->vtables), u64_cmp);
	r->torch = (struct py_torch){ .at = opts->layout, .vtables = r->vtables, .vtables_cnt = opts->vtables_cnt };
	r->interp_head = opts->interp_head;
	r->interp_next = opts->interp_next;
	r->walks_always = opts->walks_always;
	walk__init(&r->walk, &r->py, &r->torch);
	*ret = r;
	return 0;
}

static void forget_classes(struct py_reader *r)
{
	for (uint32_t i = 0; i < r->classes.cnt; i++)
		free(((struct class_name *)map__at(&r->classes, i))->text);
	map__clear(&r->classes);
}

void py_reader__free(struct py_reader *r)
{
	if (!r)
		return;
	walk__done(&r->walk);
	py__done(&r->py);
	target__free(r->target);
	free(r->vtables);
	free(r->modules);
	free(r->optimizers);
	free(r->roots);
	map__done(&r->before);
	free(r->reported);
	free(r->modules_reported);
	forget_classes(r);
	map__done(&r->classes);
	free(r);
}

void py_reader__rest(struct py_reader *r)
{
	py_snap__give_back(r->py.snap);
}

const char *py_reader__text(const struct py_reader *r, uint32_t at)
{
	return walk__text(&r->walk, at);
}

/* --- one walk --------------------------------------------------------------------------------------------- */

static int look_up_types(struct py *p)
{
	static const char *const tensors[] = { "TensorBase", "_TensorBase" }; /* the older name: before 2.2 */
	int e = -ENOENT;

	memset(p->bases, 0, sizeof(p->bases));
	for (unsigned i = 0; i < 2 && e; i++)
		e = py__module_attr(p, "torch._C", tensors[i], &p->bases[WALK_TENSOR]);
	e = e ? e : py__module_attr(p, "torch.nn.modules.module", "Module", &p->bases[WALK_MODULE]);
	if (!e && py__module_attr(p, "torch.optim.optimizer", "Optimizer", &p->bases[WALK_OPTIMIZER]))
		p->bases[WALK_OPTIMIZER] = 0; /* a job that does not train */
	return e;
}

/* The oldest interpreter that has torch, most often the only one there is; and its types. */
static int find_interp(struct py_reader *r)
{
	struct py *p = &r->py;
	uint64_t interp = py_snap__ptr(p->snap, r->interp_head), found = 0, bases[PY_BASES_MAX] = { 0 };
	int e = -EAGAIN;

	r->others = 0;
	for (unsigned i = 0; interp && i < PY_INTERPS_MAX; i++, interp = py_snap__ptr(p->snap, interp + r->interp_next)) {
		p->interp = interp;
		e = look_up_types(p);
		if (e)
			continue;
		r->others += found != 0;
		found = interp;
		memcpy(bases, p->bases, sizeof(bases));
	}
	p->interp = found;
	memcpy(p->bases, bases, sizeof(bases));
	return found ? 0 : e;
}

/* The types that everything else is recognised by: looked up in a look at everything (15 ms); between, they do not move. */
static int find_types(struct py_reader *r, int anew)
{
	struct py *p = &r->py;
	uint64_t was[PY_BASES_MAX];
	int e = 0;

	memcpy(was, p->bases, sizeof(was));
	py__fresh(p);
	if (!py_snap__ptr(p->snap, r->interp_head))
		return -EAGAIN;
	if (anew || !p->bases[WALK_MODULE])
		e = find_interp(r);
	for (unsigned i = 0; i < PY_BASES_MAX && !e; i++)
		if (p->bases[i] && !py__is(p, p->bases[i], PY_IS_TYPE))
			e = -EAGAIN;
	if (e)
		memset(p->bases, 0, sizeof(p->bases));
	if (memcmp(was, p->bases, sizeof(was)))
		r->can_be_same = 0;
	py__forget_types(p); /* some were seen before the bases were known */
	return e;
}

/* The same addresses, in whatever order. */
static int is_same_set(const uint64_t *a, const uint64_t *b, size_t cnt)
{
	uint64_t *sorted = malloc(cnt * 16 + 1);
	int is_same;

	if (!sorted)
		return 0;
	memcpy(sorted, a, cnt * 8);
	memcpy(sorted + cnt, b, cnt * 8);
	qsort(sorted, cnt, 8, u64_cmp);
	qsort(sorted + cnt, cnt, 8, u64_cmp);
	is_same = !memcmp(sorted, sorted + cnt, cnt * 8);
	free(sorted);
	return is_same;
}

/* Takes new lists of the modules and optimizers to read. */
static void take(struct py_reader *r, uint64_t *modules, size_t modules_cnt, uint64_t *optimizers, size_t optimizers_cnt)
{
	if (modules_cnt == r->modules_cnt && optimizers_cnt == r->optimizers_cnt && modules_cnt &&
	    is_same_set(modules, r->modules, modules_cnt) && is_same_set(optimizers, r->optimizers, optimizers_cnt)) {
		free(modules);
		free(optimizers);
		return; /* nothing new */
	}
	free(r->modules);
	free(r->optimizers);
	r->modules = modules;
	r->modules_cnt = modules_cnt;
	r->optimizers = optimizers;
	r->optimizers_cnt = optimizers_cnt;
	r->can_be_same = 0;
}

static int search(struct py_reader *r, struct py_look *ret)
{
	struct py *p = &r->py;
	struct gc_found found;
	uint64_t begin = now_ns(), begin_cpu = cpu_ns(), *modules, *optimizers;
	size_t m = 0, o = 0;
	int e = gc__find(p, 1u << WALK_MODULE | 1u << WALK_OPTIMIZER, &found);

	/* A walk that ended early may have missed old ones: they are still looked at, and drop out if they are gone. */
	modules = calloc(found.cnt + r->modules_cnt + 1, 8);
	optimizers = calloc(found.cnt + r->optimizers_cnt + 1, 8);
	e = !e && (!modules || !optimizers) ? -ENOMEM : e;
	if (e) {
		free(found.objs);
		free(modules);
		free(optimizers);
		return e;
	}
	for (size_t i = 0; i < found.cnt; i++) {
		const struct py_type *t = py__type_of(p, found.objs[i]);

		if (t && t->bases >> WALK_MODULE & 1)
			modules[m++] = found.objs[i];
		else if (t && o < WALK_OPTIMIZERS_MAX)
			optimizers[o++] = found.objs[i];
	}
	ret->is_cut = !found.is_whole;
	if (!found.is_whole) {
		for (size_t i = 0; i < r->modules_cnt; i++)
			modules[m++] = r->modules[i];
		for (size_t i = 0; i < r->optimizers_cnt && o < WALK_OPTIMIZERS_MAX; i++) {
			size_t k = 0;

			while (k < o && optimizers[k] != r->optimizers[i])
				k++;
			if (k == o)
				optimizers[o++] = r->optimizers[i];
		}
	}
	free(found.objs);
	take(r, modules, m, optimizers, o);
	ret->objects = found.nodes;
	ret->search_ns += now_ns() - begin;
	ret->search_cpu_ns += cpu_ns() - begin_cpu;
	return 0;
}

static int walk_once(struct py_reader *r)
{
	int e = walk__names(&r->walk, r->modules, r->modules_cnt, r->optimizers, r->optimizers_cnt);

	return e ? e : walk__gradients(&r->walk);
}

/*
 * If nothing that the last walk read has changed, its result holds. Where something always has (LBFGS, a model that is
 * made anew in each step), this is checked only now and then.
 */
static int walk_again(struct py_reader *r)
{
	r->is_same = r->can_be_same && !r->walks_always && py_snap__is_same(r->py.snap);
	r->unlike = r->is_same ? 0 : r->unlike + 1;
	r->walk.is_untraced = r->unlike > UNLIKE_MAX && r->unlike % UNLIKE_MAX;
	return r->is_same ? walk__gradients(&r->walk) : walk_once(r);
}

/* Submodules that the walk found are known from now on. */
static void keep_modules(struct py_reader *r)
{
	const uint64_t *addrs;
	size_t cnt = walk__modules(&r->walk, &addrs);
	uint64_t *copy = cnt ? malloc(cnt * 8) : NULL;

	if (!copy)
		return; /* the old list is as good */
	memcpy(copy, addrs, cnt * 8);
	free(r->modules);
	r->modules = copy;
	r->modules_cnt = cnt;
}

/* --- roots ------------------------------------------------------------------------------------------------ */

static struct root *find_root(struct py_reader *r, uint64_t obj)
{
	for (size_t i = 0; i < r->roots_cnt; i++)
		if (r->roots[i].obj == obj)
			return &r->roots[i];
	return NULL;
}

static struct root *add_root(struct py_reader *r, uint64_t obj)
{
	const struct py_type *t = py__type_of(&r->py, obj);
	struct root new = { .obj = obj, .ordinal = 1 };

	if (r->roots_cnt == READER_ROOTS_MAX || !t || py__type_name(&r->py, t->addr, new.class))
		return NULL;
	for (size_t i = 0; i < r->roots_cnt; i++)
		if (!strcmp(r->roots[i].class, new.class) && r->roots[i].ordinal >= new.ordinal)
			new.ordinal = r->roots[i].ordinal + 1;
	snprintf(new.label, sizeof(new.label), new.ordinal > 1 ? "%s#%u" : "%s", new.class, new.ordinal);
	r->roots[r->roots_cnt] = new;
	return &r->roots[r->roots_cnt++];
}

/* Roots without a name have no label any more. */
static void drop_roots(struct py_reader *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->roots_cnt; i++)
		if (r->roots[i].seen)
			r->roots[kept++] = r->roots[i];
	r->roots_cnt = kept;
}

/* The address of a freed object's class may be another class's by now. */
static void check_roots(struct py_reader *r)
{
	char class[PY_TEXT_MAX];
	size_t kept = 0;

	for (size_t i = 0; i < r->roots_cnt; i++) {
		const struct py_type *t = py__type_of(&r->py, r->roots[i].obj);

		if (!t || py__type_name(&r->py, t->addr, class) || strcmp(class, r->roots[i].class))
			continue;
		r->roots[kept] = r->roots[i];
		r->roots[kept].was_seen = r->roots[kept].seen;
		r->roots[kept++].seen = 0;
	}
	r->roots_cnt = kept;
}

/* --- what is reported ----------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct py_reader *r, struct py_name *n)
{
	if (n->hash)
		return n->hash;
	const char *path = py_reader__text(r, n->path), *key = py_reader__text(r, n->key);
	uint64_t h = XXH3_64bits(path, strlen(path));
	uint64_t words[11] = { n->kind == EV_TENSOR_GRADIENT ? 0 : n->at.impl, n->at.storage, n->at.data, n->at.bytes, n->obj,
			       n->root, n->kind | (uint64_t)n->rests << 8,
			       (uint64_t)n->at.dims << 16 | (uint64_t)n->at.dtype << 8 | n->at.dev };

	words[8] = XXH3_64bits_withSeed(key, strlen(key), h);
	words[9] = n->at.dims <= PY_DIMS_MAX ? XXH3_64bits(n->at.shape, n->at.dims * 8u) : 0;
	words[10] = n->of_root;
	n->hash = XXH3_64bits(words, sizeof(words));
	return n->hash;
}

static uint64_t hash_of_module(const struct py_reader *r, struct py_module *m)
{
	if (m->hash)
		return m->hash;
	const char *path = py_reader__text(r, m->path);
	uint64_t words[6] = { m->obj, m->type, m->parent, m->root, m->is_bare, XXH3_64bits(path, strlen(path)) };

	m->hash = XXH3_64bits(words, sizeof(words));
	return m->hash;
}

static int remember_one(struct py_reader *r, uint64_t data, uint64_t hash)
{
	struct finding *b = map__put(&r->before, data);

	if (!b)
		return -ENOMEM;
	b->hash = hash;
	return 0;
}

static int remember(struct py_reader *r)
{
	int e = 0;

	if (r->before.cap > 8 * (r->walk.names_cnt + r->walk.paths_cnt))
		map__done(&r->before);
	map__clear(&r->before);
	for (size_t i = 0; i < r->walk.gradients_at && !e; i++)
		e = remember_one(r, r->walk.names[i].at.data, hash_of(r, &r->walk.names[i]));
	for (size_t i = 0; i < r->walk.paths_cnt && !e; i++)
		e = remember_one(r, r->walk.paths[i].obj, hash_of_module(r, &r->walk.paths[i]));
	r->has_before |= !e;
	return e;
}

static int was_before(const struct py_reader *r, uint64_t data, uint64_t hash)
{
	const struct finding *b = map__find(&r->before, data);

	return b && b->hash == hash;
}

static int is_all_read(const struct py_reader *r)
{
	const struct walk *w = &r->walk;

	if (w->torn_modules > WALK_TORN_KEPT || r->torn_cnt > WALK_TORN_KEPT)
		return 0;
	for (uint32_t i = 0; i < w->torn_modules; i++)
		for (uint32_t k = 0; k < r->torn_cnt; k++)
			if (w->torn_at[i] == r->torn_at[k])
				return 0;
	return 1;
}

/* A root that was seen for the first time may be a part of a module that could not be read. */
static void see_root(const struct py_reader *r, struct root *root)
{
	root->seen = 1;
	root->is_sure |= !r->walk.torn_modules || (root->was_seen && r->is_all_read);
}

/* `last`: the one that was asked for before. */
static const char *label_of(struct py_reader *r, uint64_t obj, struct root **last)
{
	if (obj && (!*last || (*last)->obj != obj))
		*last = find_root(r, obj);
	return obj && *last ? (*last)->label : NULL;
}

static int choose(struct py_reader *r, struct py_look *look)
{
	struct root *root = NULL, *of = NULL;

	if (r->reported_cap < r->walk.names_cnt) {
		struct py_reported *reported = reallocarray(r->reported, r->walk.names_cnt, sizeof(*reported));

		if (!reported)
			return -ENOMEM;
		r->reported = reported;
		r->reported_cap = r->walk.names_cnt;
	}
	py__fresh(&r->py); /* for gradients, and for roots */
	if (r->was_whole)
		drop_roots(r);
	check_roots(r);
	r->was_whole = !r->walk.torn_modules;
	r->is_all_read = r->has_looked && is_all_read(r);
	for (size_t i = 0; i < r->walk.names_cnt; i++) {
		struct py_name *n = &r->walk.names[i];
		uint64_t hash = hash_of(r, n);
		int is_same = r->is_same || n->kind == EV_TENSOR_GRADIENT || was_before(r, n->at.data, hash);

		look->changed += !is_same;
		if (!root || root->obj != n->root)
			root = find_root(r, n->root);
		if (!root)
			root = add_root(r, n->root);
		if (root && !root->seen)
			see_root(r, root);
		if (!root || !root->is_sure || !is_same || (n->kind == EV_TENSOR_GRADIENT && !walk__is_gradient(&r->walk, n)))
			look->held_back++;
		else
			r->reported[look->reported_cnt++] =
				(struct py_reported){ n, root->label, label_of(r, n->of_root, &of), hash };
	}
	look->reported = r->reported;
	return 0;
}

/* Types live long, and a new one in an old one's place rarely has another name: all are forgotten at each search. */
static const char *class_of(struct py_reader *r, uint64_t type)
{
	struct class_name *class = map__find(&r->classes, type);
	char text[PY_TEXT_MAX];

	if (class)
		return class->text;
	if (r->classes.cnt >= READER_CLASSES_MAX || py__type_name(&r->py, type, text))
		return NULL;
	class = map__put(&r->classes, type);
	if (class)
		class->text = strdup(text); /* NULL: it stays without */
	return class ? class->text : NULL;
}

/* Modules that are as they were in the look before. Roots without tensors get a label here. */
static int choose_modules(struct py_reader *r, struct py_look *look)
{
	struct root *root = NULL;

	if (r->modules_reported_cap < r->walk.paths_cnt) {
		struct py_reported_module *reported = reallocarray(r->modules_reported, r->walk.paths_cnt, sizeof(*reported));

		if (!reported)
			return -ENOMEM;
		r->modules_reported = reported;
		r->modules_reported_cap = r->walk.paths_cnt;
	}
	for (size_t i = 0; i < r->walk.paths_cnt; i++) {
		struct py_module *m = &r->walk.paths[i];
		uint64_t hash = hash_of_module(r, m);
		const char *class = class_of(r, m->type);

		if (!root || root->obj != m->root)
			root = find_root(r, m->root);
		if (!root)
			root = add_root(r, m->root);
		if (root && !root->seen)
			see_root(r, root);
		if (root && root->is_sure && class && (r->is_same || was_before(r, m->obj, hash)))
			r->modules_reported[look->reported_modules_cnt++] =
				(struct py_reported_module){ m, root->label, class, hash };
	}
	look->reported_modules = r->modules_reported;
	return 0;
}

int py_reader__call(struct py_reader *r, uint64_t code_type, uint64_t *ret_code)
{
	static const char *const names[] = { "_wrapped_call_impl", "_call_impl" }; /* the latter alone: before 2.2 */
	uint64_t dict, function = 0, code;
	int e = find_types(r, 1);

	if (e)
		return e;
	dict = py_snap__ptr(r->py.snap, r->py.bases[WALK_MODULE] + TYPE_DICT);
	for (unsigned i = 0; i < 2 && !function; i++)
		if (!dict || py__get(&r->py, dict, names[i], &function))
			return -EAGAIN;
	if (!function)
		return -ENOTSUP;
	code = py_snap__ptr(r->py.snap, function + FUNCTION_CODE);
	if (!code || py_snap__ptr(r->py.snap, code + 8) != code_type)
		return -ENOTSUP;
	*ret_code = code;
	return 0;
}

int py_reader__holders(struct py_reader *r, const struct py_frame_offsets *at, const struct py_held *v, size_t cnt,
		       struct py_holder *ret)
{
	int e = find_types(r, 0);

	e = e ? e : py_holders__find(&r->py, &r->torch, at, v, cnt, ret);
	py_snap__give_back(r->py.snap);
	return e;
}

int py_reader__compiles(struct py_reader *r, struct py_compiles_seen *seen, struct py_compiles *ret)
{
	ret->cnt = 0;
	ret->missed = 0;
	return r->compiles ? py_compiles__look(&r->py, r->compiles, seen, ret) : 0;
}

int py_reader__has_compiles(const struct py_reader *r)
{
	return r->compiles != 0;
}

int py_reader__look(struct py_reader *r, enum py_look_kind kind, struct py_look *ret)
{
	struct py_look look = { 0 };
	uint64_t start_ns = now_ns(), start_cpu_ns = cpu_ns();
	uint64_t read_before = py_snap__bytes_read(r->py.snap);
	int is_all = kind == PY_LOOK_ALL || !r->has_before, e = find_types(r, is_all);

	if (is_all)
		forget_classes(r);
	if (!e && is_all)
		r->compiles = py_compiles__find(&r->py);
	if (!e && is_all)
		e = search(r, &look);
	if (!e && !r->has_before) {
		e = walk_once(r);
		e = e ? e : remember(r);
		e = e ? e : find_types(r, 0);
		r->can_be_same = !e;
	}
	look.begin_ns = now_ns();
	e = e ? e : walk_again(r);
	r->can_be_same = 0;
	e = e ? e : choose(r, &look);
	e = e ? e : choose_modules(r, &look);
	if (e)
		return e;
	e = r->is_same ? 0 : remember(r);
	memcpy(r->torn_at, r->walk.torn_at, sizeof(r->torn_at));
	r->torn_cnt = r->walk.torn_modules;
	r->has_looked = 1;
	r->can_be_same = !e;
	if (!r->is_same)
		keep_modules(r);
	look.modules = r->walk.modules;
	look.roots = r->walk.roots;
	look.optimizers = r->walk.optimizers;
	look.circles = r->walk.circles;
	look.torn = r->walk.torn;
	look.full = r->walk.full;
	look.nameless = r->walk.nameless;
	look.kept_bytes = r->walk.kept + py_snap__kept_bytes(r->py.snap);
	look.is_same = r->is_same;
	look.others = r->others;
	look.bytes_read = py_snap__bytes_read(r->py.snap) - read_before;
	if (is_all)
		py_snap__give_back(r->py.snap); /* 16 MiB, of which a usual look needs some */
	look.took_ns = now_ns() - start_ns;
	look.cpu_ns = cpu_ns() - start_cpu_ns;
	*ret = look;
	return e;
}
