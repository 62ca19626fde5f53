/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/reported_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/quota.h"
#include "keeper/keeper.h"
#include "memtrace/shared.h"
#include "model/model.h"
#include "model/core/tensors.h"
#include "python/reader.h"

#define KNOWN_MIN 128
#define NAMED_PART 4 /* of the modules that the kernel side knows: a process alone has 65,536 */

/* The names of a storage or a module as ids, as last reported, so that they are not looked up at every look. */
struct known {
	uint64_t at, hash; /* data pointer or object */
	name_id path, root, type, key, of;
	uint8_t is_named; /* a module: the kernel side knows that it has a name */
	uint8_t seen;	  /* … in this look */
};

/* Entries are never removed one by one, so the table is emptied now and then. */
static int known_set__has_room(const struct known_set *s, size_t cnt)
{
	return s->map.cnt + cnt <= s->max;
}

static void known_set__begin(struct known_set *s, size_t cnt)
{
	map__done(&s->map);
	*s = (struct known_set){ MAP_OF(struct known), 4 * cnt + KNOWN_MIN };
}

/* --- which modules have names, for the kernel side ----------------------------------------------------------- */

/* A module without room counts as part of the one around it until there is room, which the next look tries. */
static void set_named(struct reported_names_env *env, struct reported_names *s, struct known *k, int is_named)
{
	if (!env->keeper || k->is_named == is_named)
		return;
	if (is_named && !quota_allows(s->named_cnt, env->named_cnt, MT_MODULES_NAMED_MAX, NAMED_PART)) {
		s->unnamed++;
		return;
	}
	if (keeper__module(env->keeper, s->pid, k->at, is_named) < 0 && is_named)
		return;
	k->is_named = (uint8_t)is_named;
	s->named_cnt = is_named ? s->named_cnt + 1 : s->named_cnt - 1;
	env->named_cnt = is_named ? env->named_cnt + 1 : env->named_cnt - 1;
}

static void forget_modules(struct reported_names_env *env, struct reported_names *s)
{
	for (uint32_t i = 0; i < s->modules.map.cnt; i++)
		set_named(env, s, map__at(&s->modules.map, i), 0);
	if (s->modules.max && env->keeper)
		(void)keeper__module(env->keeper, s->pid, 0, 0);
	map__done(&s->modules.map);
	s->modules = (struct known_set){ 0 };
}

/* --- tensors --------------------------------------------------------------------------------------------------- */

static void learn(const struct tell *tell, pid_t pid, const struct py_reader *r, const struct py_reported *t, struct known *k)
{
	char type[PY_TYPE_TEXT_MAX];

	if (k->hash == t->hash)
		return;
	py_storage__type_text(&t->name->at, type);
	*k = (struct known){ .at = t->name->at.data, .hash = t->hash,
			     .path = tell__name(tell, pid, py_reader__text(r, t->name->path)),
			     .root = tell__name(tell, pid, t->root), .type = tell__name(tell, pid, type),
			     .key = tell__name(tell, pid, py_reader__text(r, t->name->key)),
			     .of = t->of ? tell__name(tell, pid, t->of) : NAME_NONE };
}

static uint8_t flags_of(const struct py_name *n)
{
	return (uint8_t)(n->kind | (n->at.is_own ? EV_TENSOR_OWN : 0) | (n->is_inner ? EV_TENSOR_INNER : 0) |
			 (n->rests ? EV_TENSOR_RESTS : 0));
}

static int was_reported(const struct reported_names_env *env, const struct reported_names *s, const struct py_reported *t,
			const struct known *k)
{
	struct tensor had;
	int r = model__tensor_at(env->model, (uint32_t)s->pid, k->at, t->name->at.bytes, &had);

	return r < 0 || (r && had.path.v == k->path.v && had.root.v == k->root.v && had.type.v == k->type.v &&
			 had.key.v == k->key.v && had.of.v == k->of.v && (had.kind | had.bits) == flags_of(t->name));
}

/* --- modules --------------------------------------------------------------------------------------------------- */

/* A module that is gone has no name; a look that could not read everything proves nothing about that. */
static void forget_gone(struct reported_names_env *env, struct reported_names *s, const struct py_look *look)
{
	int has_names = look->reported_modules_cnt != 0;

	for (uint32_t i = 0; i < s->modules.map.cnt; i++) {
		struct known *k = map__at(&s->modules.map, i);

		if (!k->seen && !look->torn)
			set_named(env, s, k, 0);
		k->seen = 0;
	}
	if (env->keeper && has_names)
		(void)keeper__module(env->keeper, s->pid, 0, 1);
}

static void say_modules(struct reported_names_env *env, struct reported_names *s, const struct py_reader *r,
			const struct py_look *look, uint64_t now_ns)
{
	if (!known_set__has_room(&s->modules, look->reported_modules_cnt)) {
		forget_modules(env, s); /* all are reported again then */
		known_set__begin(&s->modules, look->reported_modules_cnt);
	}
	for (size_t i = 0; i < look->reported_modules_cnt; i++) {
		const struct py_reported_module *t = &look->reported_modules[i];
		struct known *k = map__put(&s->modules.map, t->at->obj);
		int is_same = k && k->hash == t->hash;

		if (!k)
			return;
		if (!is_same)
			*k = (struct known){ .at = t->at->obj, .hash = t->hash, .is_named = k->is_named,
					     .path = tell__name(&env->tell, s->pid, py_reader__text(r, t->at->path)),
					     .root = tell__name(&env->tell, s->pid, t->root),
					     .type = tell__name(&env->tell, s->pid, t->class) };
		k->seen = 1;
		set_named(env, s, k, !t->at->is_bare);
		if (is_same)
			continue;
		tell__event(&env->tell, (struct event){
			.ts_ns = now_ns, .kind = EV_MODULE, .pid = (uint32_t)s->pid, .addr = k->at, .size = t->at->parent,
			.name = k->path, .root = k->root, .type = k->type });
	}
	forget_gone(env, s, look);
}

/* --- the optimizer's own count -------------------------------------------------------------------------------------- */

static int is_count(const struct py_reader *r, const struct py_name *n)
{
	return n->kind == EV_TENSOR_STATE && n->at.dev == MT_DEV_CPU && (n->at.bytes == 4 || n->at.bytes == 8) &&
	       !strcmp(py_reader__text(r, n->key), "step");
}

static void find_count(struct reported_names *s, const struct py_reader *r, const struct py_look *look)
{
	if (!look->reported_cnt)
		return;
	s->count = (struct step_count_place){ 0 };
	for (size_t i = 0; i < look->reported_cnt && !s->count.addr; i++) {
		const struct py_name *n = look->reported[i].name;

		if (is_count(r, n))
			s->count = (struct step_count_place){ .addr = n->at.data, .dtype = n->at.dtype };
	}
}

/* --- all -------------------------------------------------------------------------------------------------------- */

void reported_names__look(struct reported_names *s, struct reported_names_env *env, const struct py_reader *r,
			  const struct py_look *look, uint64_t now_ns)
{
	uint64_t age = (now_ns - look->begin_ns) / EV_TENSOR_AGE_NS + 1;

	s->unnamed = 0;
	say_modules(env, s, r, look, now_ns);
	find_count(s, r, look);
	if (age > UINT8_MAX) /* too long ago: the next look reports it */
		return;
	if (!known_set__has_room(&s->tensors, look->reported_cnt))
		known_set__begin(&s->tensors, look->reported_cnt);
	for (size_t i = 0; i < look->reported_cnt; i++) {
		const struct py_reported *t = &look->reported[i];
		struct known *k = map__put(&s->tensors.map, t->name->at.data);

		if (!k)
			return;
		learn(&env->tell, s->pid, r, t, k);
		if (was_reported(env, s, t, k))
			continue;
		if (k->of.v)
			tell__event(&env->tell, (struct event){ .ts_ns = now_ns, .kind = EV_TENSOR_OF, .pid = (uint32_t)s->pid,
								.addr = k->at, .name = k->of });
		tell__event(&env->tell, (struct event){
			.ts_ns = now_ns, .kind = EV_TENSOR, .pid = (uint32_t)s->pid, .dev = t->name->at.dev, .addr = k->at,
			.size = t->name->at.bytes, .name = k->path, .root = k->root, .type = k->type, .key = k->key,
			.flags = flags_of(t->name), .depth = (uint8_t)age });
	}
}

void reported_names__done(struct reported_names *s, struct reported_names_env *env)
{
	forget_modules(env, s);
	map__done(&s->tensors.map);
	*s = (struct reported_names){ 0 };
}
