/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * From files to the plan of a process: what the sources want of each is taken from the cache or found, moved to where this
 * process has it mapped, and put together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "plan"
#include "base/array.h"
#include "base/log.h"
#include "plan/files.h"

/* --- finding ------------------------------------------------------------------------------------------- */

static size_t find__size(const struct find *f)
{
	const struct plan *p = f->plan;

	return sizeof(*f) + sizeof(*p) + p->sites_cnt * sizeof(*p->sites) + p->vtables_cnt * sizeof(*p->vtables) +
	       p->flow_specs_cnt * sizeof(*p->flow_specs) + p->specs_cnt * sizeof(*p->specs) +
	       (f->names ? (64u << 10) + 128ull * names__last(f->names) : 0);
}

/* The counts besides the plan. */
static int find__take_counts(struct find *f, const struct builder *own)
{
	memcpy(f->rows_found, own->rows_found, sizeof(f->rows_found));
	f->gpu_found = own->gpu_found;
	f->ops_found = own->ops_found;
	f->views_found = own->views_found;
	f->flow_wanted = own->flow_wanted;
	f->flow_found = own->flow_found;
	f->pattern_sites = calloc(2 * own->patterns_cnt + 1, sizeof(*f->pattern_sites));
	if (!f->pattern_sites)
		return -ENOMEM;
	for (size_t i = 0; i < own->patterns_cnt; i++) {
		f->pattern_sites[2 * i] = own->patterns[i].sites;
		f->pattern_sites[2 * i + 1] = own->patterns[i].left_out;
	}
	if (!names__last(f->names)) {
		names__free(f->names);
		f->names = NULL;
	}
	f->bytes = find__size(f);
	return 0;
}

#define LOCALS_MAX 255 /* elf__find_locals */

struct locals {
	struct builder *b;
	size_t gpu_cnt; /* names of the GPUs' memory API; the others are boxed calls', … */
	size_t boxed[BOXED_NAMES_MAX]; /* … with these numbers */
};

static int plan_local(void *ctx, size_t name, const struct elf_sym *sym)
{
	struct locals *l = ctx;

	return name < l->gpu_cnt ? gpu__plan_local(l->b, name, sym) : boxed__plan_local(l->b, l->boxed[name - l->gpu_cnt], sym);
}

/* A library's local functions: going through their names is expensive, so it is done once for all sources. */
static int builder__plan_locals(struct builder *b)
{
	struct locals l = { .b = b };
	const char *names[LOCALS_MAX];
	size_t cnt = 0;
	int r;

	if (b->sources & SRC_SEGMENTS)
		l.gpu_cnt = cnt = gpu__names(names, LOCALS_MAX - BOXED_NAMES_MAX);
	if (b->sources & SRC_FLOW)
		cnt += boxed__names(b->lib, names + cnt, l.boxed);
	r = cnt ? elf__find_locals(b->elf, names, cnt, plan_local, &l) : 0;
	if (r == 0 && (b->sources & SRC_FLOW) && strstr(b->lib->base, "torch_cpu") && !b->boxed_found)
		builder__note(b, "%s does not say where boxed calls go (is it stripped?): what torch.ops calls is no operator",
			      b->lib->base);
	return r;
}

/* Adds everything that the sources want of b->elf to b->plan. */
static int builder__plan_elf(struct builder *b)
{
	int r = catalog__plan_lib(b);

	if (r == 0 && (b->sources & SRC_SEGMENTS))
		r = gpu__plan_lib(b);
	if (r == 0)
		r = builder__plan_locals(b);
	if (r == 0 && (b->sources & (SRC_OPS | SRC_VIEWS | SRC_FLOW | SRC_REGIONS)))
		r = ops__plan_lib(b);
	if (r == 0 && (b->sources & SRC_USDT))
		r = usdt__plan_lib(b);
	builder__note_left_out(b);
	return r;
}

/* The plan of one file: a builder of its own, without the process. */
static int make_find(struct builder *b, const struct lib *lib, const struct elf *e, const struct find_key *key,
		     struct find **ret)
{
	struct find *f = calloc(1, sizeof(*f));
	struct builder own = { .sources = b->sources, .classes = b->classes, .has_guards = b->has_guards,
			       .lib = lib, .elf = e, .host_lib = b->host_lib, .reallocarray_lib = b->reallocarray_lib,
			       .patterns_cnt = b->patterns_cnt, .flow_optional = b->flow_optional };
	int r = -ENOMEM;

	if (f) {
		f->key = *key;
		own.plan = f->plan = calloc(1, sizeof(*f->plan));
		own.names = f->names = names__new();
		own.patterns = calloc(b->patterns_cnt + 1, sizeof(*own.patterns));
	}
	if (f && f->plan && f->names && own.patterns) {
		memcpy(own.patterns, b->patterns, b->patterns_cnt * sizeof(*own.patterns));
		for (size_t i = 0; i < own.patterns_cnt; i++)
			own.patterns[i].sites = own.patterns[i].left_out = 0;
		r = builder__plan_elf(&own);
		if (!r)
			r = find__take_counts(f, &own);
	}
	free(own.patterns);
	index__done(&own.by_flow_spec);
	if (r < 0) {
		find__free(f);
		return r;
	}
	*ret = f;
	return 0;
}

/* 0, 1: the file is left out, or -errno. */
static int builder__find(struct builder *b, const struct lib *lib, struct open_lib *o, struct find **ret)
{
	struct find_key key = { b->sources, b->flow_optional, lib == b->host_lib, lib == b->reallocarray_lib,
				insn_classes_usable(&b->classes) };
	int r = 0;

	*ret = plan_file__find(b->cache, o->file, &key);
	if (*ret)
		return 0;
	if (!o->elf) {
		r = builder__open_elf(b, lib, o->fd, &o->elf, &o->why);
		o->kept_bytes = 0;
	}
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		builder__left_out(b, lib->path, r == -EDQUOT ? FILES_NO_SHARE : o->why.msg);
		return 1;
	}
	r = make_find(b, lib, o->elf, &key, ret);
	b->read_bytes += elf__read_bytes(o->elf) - o->kept_bytes;
	if (!r && elf__failed(o->elf, &o->file->why)) {
		if (elf__failed(o->elf, NULL) == -ESTALE)
			o->file->is_lasting = 0;
		find__free(*ret);
		builder__left_out(b, lib->path, o->file->why);
		r = 1;
	} else if (!r) {
		plan_file__keep(b->cache, o->file, *ret);
	}
	builder__close_elf(b, o);
	return r;
}

/* --- putting together ---------------------------------------------------------------------------------- */

/* The library's entry in plan->libs; takes ownership of the descriptor. */
static int builder__use_lib(struct builder *b, const struct lib *lib, struct open_lib *o)
{
	struct plan *p = b->plan;
	struct plan_lib l = { .dev = lib->dev, .ino = lib->ino };

	if (!array_has_one_more(p->libs, p->libs_cnt))
		return -ENOMEM;
	l.path = strdup(lib->path);
	if (!l.path)
		return -ENOMEM;
	l.size = o->file->stamp.size;
	l.mtime_ns = o->file->stamp.mtime_ns;
	l.fd = o->fd;
	o->fd = -1;
	p->libs[p->libs_cnt++] = l;
	return 0;
}

/* Numbers that a file's specs have in the process's plan. */
struct spec_map {
	int *usdt, *seg, *flow;
};

static int map_specs(struct builder *b, const struct find *f, const struct name_map *names, struct spec_map *ret)
{
	const struct plan *from = f->plan;
	int r = 0;

	ret->usdt = calloc(from->specs_cnt + from->seg_specs_cnt + from->flow_specs_cnt + 1, sizeof(int));
	if (!ret->usdt)
		return -ENOMEM;
	ret->seg = ret->usdt + from->specs_cnt;
	ret->flow = ret->seg + from->seg_specs_cnt;
	for (size_t i = 0; i < from->specs_cnt && r != -ENOMEM; i++)
		r = ret->usdt[i] = usdt__add_spec(b->plan, &from->specs[i]);
	for (size_t i = 0; i < from->seg_specs_cnt && r != -ENOMEM; i++) {
		struct mt_seg_spec spec = from->seg_specs[i];

		spec.api = name_map__to(names, (name_id){ (uint32_t)spec.api }).v;
		r = ret->seg[i] = gpu__add_spec(b->plan, &spec);
	}
	for (size_t i = 0; i < from->flow_specs_cnt && r != -ENOMEM; i++)
		r = ret->flow[i] = flow__intern_spec(b, &from->flow_specs[i]);
	return r == -ENOMEM ? r : 0;
}

/* Translates a site to the process's plan. 0: there is no room for its spec. */
static int move_site(struct builder *b, const struct lib *lib, struct site *s, const struct spec_map *specs, int has_bias,
		     uint64_t bias)
{
	uint64_t spec = s->cookie >> 32;

	switch (s->prog) {
	case MT_PROG_USDT:
		if (specs->usdt[s->cookie] < 0) {
			builder__note(b, "%s: more than %d different USDT sites; the rest is not watched", lib->base,
				      MT_USDT_SPECS_MAX);
			return 0;
		}
		s->cookie = (uint64_t)specs->usdt[s->cookie];
		break;
	case MT_PROG_SEG_ENTER:
	case MT_PROG_SEG_RET:
		s->cookie = (uint64_t)specs->seg[s->cookie];
		break;
	case MT_PROG_FLOW_BOXED:
		if (b->plan->flow_layout.at.arg_bytes)
			break;
		b->flow_found--; /* which the file's counts include; the reason is in a note */
		return 0;
	case MT_PROG_FLOW_OP:
		if (specs->flow[spec] < 0) /* treated like one that is not understood */
			b->plan->flow_args_unread++;
		s->cookie = (uint32_t)s->cookie | (uint64_t)(specs->flow[spec] < 0 ? 0 : specs->flow[spec]) << 32;
		break;
	}
	s->lib = (uint32_t)b->plan->libs_cnt - 1;
	s->guard = s->guard && has_bias ? s->guard + bias : 0;
	return 1;
}

static int builder__move(struct builder *b, const struct lib *lib, const struct open_lib *o, const struct find *f,
			 const struct name_map *names, const struct spec_map *specs)
{
	const struct plan *from = f->plan;
	uint64_t bias;
	int has_bias = elf_layout__bias(&o->file->facts.code, lib->exec_start, lib->exec_off, &bias) == 0, r = 0;

	for (size_t i = 0; i < from->sites_cnt && !r; i++) {
		struct site s = from->sites[i];

		name_map__site(names, &s);
		if (move_site(b, lib, &s, specs, has_bias, bias))
			r = builder__put_site(b, lib, &s);
	}
	for (size_t i = 0; i < from->vtables_cnt && has_bias && !r; i++)
		r = builder__put_vtable(b, from->vtables[i].addr + bias, name_map__to(names, from->vtables[i].name));
	return r;
}

static void builder__take_counts(struct builder *b, const struct find *f)
{
	const struct plan *from = f->plan;

	for (size_t i = 0; i < CATALOG_ROWS_MAX; i++)
		b->rows_found[i] |= f->rows_found[i];
	for (size_t i = 0; i < b->patterns_cnt; i++) {
		b->patterns[i].sites += f->pattern_sites[2 * i];
		b->patterns[i].left_out += f->pattern_sites[2 * i + 1];
	}
	b->gpu_found += f->gpu_found;
	b->ops_found += f->ops_found;
	b->views_found += f->views_found;
	b->flow_wanted += f->flow_wanted;
	b->flow_found += f->flow_found;
	b->plan->unsafe_cnt += from->unsafe_cnt;
	b->plan->ops_left_out += from->ops_left_out;
	b->plan->views_left_out += from->views_left_out;
	b->plan->flow_args_unread += from->flow_args_unread;
	for (size_t i = 0; i < from->notes_cnt; i++)
		builder__note(b, "%s", from->notes[i]);
}

static int builder__take(struct builder *b, const struct lib *lib, struct open_lib *o, const struct find *f)
{
	struct spec_map specs = { NULL, NULL, NULL };
	struct name_map names = { 0 };
	int r = f->plan->sites_cnt ? builder__use_lib(b, lib, o) : 0;

	if (!r && f->names)
		r = name_map__init(&names, f->names, b->names);
	if (!r)
		r = map_specs(b, f, &names, &specs);
	if (!r)
		r = builder__move(b, lib, o, f, &names, &specs);
	builder__take_counts(b, f);
	gpu__at(b->plan, lib);
	name_map__done(&names);
	free(specs.usdt);
	return r;
}

int builder__plan_lib(struct builder *b, const struct lib *lib, struct err *err)
{
	struct open_lib *o = builder__lib(b, lib);
	struct find *f;
	int r;

	if (o && !o->r && o->fd < 0)
		o->r = open_lib__ask(o, b, lib);
	if (!o || o->r == -ENOMEM)
		return err_set(err, -ENOMEM, "out of memory");
	if (o->r == -ESRCH)
		return err_set(err, -ESRCH, "%s", o->why.msg);
	if (o->r == -EDQUOT)
		builder__left_out(b, lib->path, FILES_NO_SHARE);
	else if (o->r == -EIO || o->r == -EFBIG)
		builder__left_out(b, lib->path, o->why.msg);
	else if (o->r < 0 && o->fd < 0)
		builder__note(b, "%s", o->why.msg);
	else if (o->r < 0)
		log_debug("%s", o->why.msg);
	if (o->r < 0)
		return 0;
	if (o->file->why) {
		builder__left_out(b, lib->path, o->file->why);
		return 0;
	}
	if (lib->is_exe) {
		b->exe_is_static = o->file->facts.is_static;
		b->exe_is_stripped = o->file->facts.is_stripped;
	}
	r = builder__find(b, lib, o, &f);
	if (!r)
		r = builder__take(b, lib, o, f);
	return r < 0 ? err_set(err, r, "planning %s: %s", lib->path, strerror(-r)) : 0;
}
