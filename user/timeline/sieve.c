/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "timeline/sieve.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "event/event.h"
#include "timeline/labels.h"

struct owner_row {
	uint64_t id;
	name_id path, root;
};

struct param_row {
	uint64_t key;
	name_id root;
};

struct live_row { /* begins with id: u64_cmp */
	uint64_t id;
	struct tl_event alloc; /* version: the one it has now */
	struct tl_learned learned; /* if alloc.learned says so: that is no address any more */
	bool is_out;	       /* fn has it */
};

struct totals_row {
	uint64_t key;
	struct tl_event last;
};

void sieve__init(struct sieve *s)
{
	*s = (struct sieve){ .span = { 0, UINT64_MAX }, .dev = -1, .category = -1 };
	s->nobodys = MAP_OF(struct owner_row);
	s->owners = MAP_OF(struct owner_row);
	s->params = MAP_OF(struct param_row);
	s->live = MAP_OF(struct live_row);
	s->totals = MAP_OF(struct totals_row);
}

void sieve__done(struct sieve *s)
{
	map__done(&s->nobodys);
	map__done(&s->owners);
	map__done(&s->params);
	map__done(&s->live);
	map__done(&s->totals);
}

/* --- the first pass ------------------------------------------------------------------------------------- */

static uint64_t param_key(uint32_t pid, name_id path)
{
	return (uint64_t)pid << 32 | path.v;
}

static int learn_name(struct sieve *s, const struct tl_event *ev)
{
	struct param_row *row = ev->depth == EV_TENSOR_PARAMETER ? map__put(&s->params, param_key(ev->pid, ev->op)) : NULL;

	if (row)
		row->root = ev->region;
	return row || ev->depth != EV_TENSOR_PARAMETER ? 0 : -ENOMEM;
}

int sieve__learn(struct sieve *s, const struct tl_event *ev)
{
	struct owner_row *row;

	if (ev->kind == TL_NAME)
		return learn_name(s, ev);
	if (ev->kind == TL_CREATE && !ev->module.v && !ev->root.v)
		return map__put(&s->nobodys, ev->id) ? 0 : -ENOMEM;
	if (ev->kind != TL_DESTROY || !(row = map__find(&s->nobodys, ev->id)))
		return 0;
	map__remove(&s->nobodys, row);
	if (!ev->module.v && !ev->root.v)
		return 0;
	row = map__put(&s->owners, ev->id);
	if (!row)
		return -ENOMEM;
	row->path = ev->module;
	row->root = ev->root;
	return 0;
}

/* --- what passes ---------------------------------------------------------------------------------------- */

bool sieve__is_whose(const struct sieve *s, const struct tl_event *ev)
{
	return (s->dev < 0 || s->dev == ev->dev) && pid_is_one_of(s->pids, s->pids_cnt, ev->pid);
}

struct owner sieve__owner(const struct sieve *s, const struct tl_event *alloc)
{
	const struct param_row *param;
	const struct owner_row *row;
	struct labels_name name;
	const char *path, *dot;

	if (alloc->module.v || alloc->root.v)
		return (struct owner){ alloc->module, alloc->root, UINT32_MAX };
	row = map__find(&s->owners, alloc->id);
	if (row)
		return (struct owner){ row->path, row->root, UINT32_MAX };
	if (!s->labels || !labels__name(s->labels, alloc->id, &name))
		return (struct owner){ 0 };
	param = name.kind == EV_TENSOR_STATE ? map__find(&s->params, param_key(alloc->pid, name.path)) : NULL;
	path = names__get(s->names, name.path);
	dot = strrchr(path, '.');
	return (struct owner){ dot ? name.path : NAME_NONE, param ? param->root : name.root, dot ? (uint32_t)(dot - path) : 0 };
}

const char *owner__words(const struct owner *o, const struct names *names, char *buf, size_t size)
{
	const char *root = names__get(names, o->root), *path = names__get(names, o->path);
	int len = o->path_len > NAME_BYTES_MAX ? NAME_BYTES_MAX : (int)o->path_len;

	snprintf(buf, size, "%s%s%.*s", root, *root && *path && len ? "." : "", len, path);
	return buf;
}

/* text is the wanted thing, or something in it. */
static bool is_in(const char *wanted, const char *text)
{
	char within[2 * NAME_BYTES_MAX];
	size_t len = strlen(wanted);

	if (!strpbrk(wanted, "*?["))
		return !strncmp(wanted, text, len) && (!text[len] || text[len] == '.');
	snprintf(within, sizeof(within), "%.4095s.*", wanted);
	return !fnmatch(wanted, text, 0) || !fnmatch(within, text, 0);
}

const char *module_plain(char *buf, size_t size, const char *path)
{
	static const char wrapped[] = "_orig_mod"; /* torch/_dynamo/eval_frame.py, OptimizedModule, 2.13 */
	size_t len = 0, part;

	buf[0] = '\0';
	for (; *path; path += part + (path[part] == '.')) {
		part = strcspn(path, ".");
		if (part == sizeof(wrapped) - 1 && !strncmp(path, wrapped, part))
			continue;
		if (len + part + 2 > size)
			break;
		len += (size_t)snprintf(buf + len, size - len, "%s%.*s", len ? "." : "", (int)part, path);
	}
	return buf;
}

static bool is_module(const char *wanted, const char *path, const char *root)
{
	char whole[2 * NAME_BYTES_MAX + 2];

	snprintf(whole, sizeof(whole), "%s%s%s", root, *root && *path ? "." : "", path);
	return (*path && is_in(wanted, path)) || is_in(wanted, whole);
}

bool module_is_wanted(const char *wanted, const char *path, const char *root)
{
	char plain[NAME_BYTES_MAX + 1];

	return is_module(wanted, path, root) || is_module(wanted, module_plain(plain, sizeof(plain), path), root);
}

bool op_is_wanted(const char *wanted, const char *op)
{
	const char *short_name = strncmp(op, "aten::", 6) ? op : op + 6;

	return !strcmp(wanted, op) || !strcmp(wanted, short_name) || !fnmatch(wanted, op, 0) || !fnmatch(wanted, short_name, 0);
}

static bool is_of_module(const struct sieve *s, const struct tl_event *alloc)
{
	struct owner o = sieve__owner(s, alloc);
	char path[NAME_BYTES_MAX];

	if (!o.path.v && !o.root.v)
		return false;
	snprintf(path, sizeof(path), "%.*s", o.path_len > NAME_BYTES_MAX ? NAME_BYTES_MAX : (int)o.path_len,
		 names__get(s->names, o.path));
	return module_is_wanted(s->module, path, names__get(s->names, o.root));
}

bool sieve__is_made(const struct sieve *s, const struct tl_event *ev)
{
	struct tl_event likely;

	if (!s->op && !s->module)
		return true;
	likely = tl_likely(ev);
	return (!s->op || op_is_wanted(s->op, names__get(s->names, likely.op))) && (!s->module || is_of_module(s, &likely));
}

bool sieve__is_category(const struct sieve *s, enum category c)
{
	return s->category < 0 || (s->labels && (int)c == s->category);
}

/* --- the second pass -------------------------------------------------------------------------------------- */

static bool is_within(const struct sieve *s, uint64_t ts_ns)
{
	return span__has(&s->span, ts_ns);
}

static bool is_category_of(const struct sieve *s, uint64_t id, uint32_t version)
{
	return s->category < 0 || (s->labels && sieve__is_category(s, labels__likely(s->labels, id, version)));
}

static bool is_measured(const struct sieve *s, uint64_t id, uint32_t version)
{
	return s->labels && !category_is_none(labels__get(s->labels, id, version));
}

/* For fn the block begins at that time, as a preexisting one. */
static int tell_late(const struct sieve *s, struct live_row *row, uint64_t ts_ns, timeline_fn fn, void *ctx)
{
	struct tl_event late = row->alloc;

	late.kind = TL_PREEXISTING;
	late.ts_ns = ts_ns;
	if (late.learned) /* what was measured since then counts */
		late.learned = is_measured(s, row->id, late.version) ? NULL : &row->learned;
	row->is_out = true;
	return fn(ctx, &late);
}

static int keep_totals(struct sieve *s, const struct tl_event *ev)
{
	struct totals_row *row = map__put(&s->totals, (uint64_t)ev->pid << 8 | ev->dev);

	if (row)
		row->last = *ev;
	return row ? 0 : -ENOMEM;
}

static int tell_totals(const struct sieve *s, timeline_fn fn, void *ctx)
{
	int r = 0;

	for (uint32_t i = 0; i < s->totals.cnt && !r; i++) {
		struct tl_event ev = ((const struct totals_row *)map__at(&s->totals, i))->last;

		ev.ts_ns = s->span.from_ns;
		r = fn(ctx, &ev);
	}
	return r;
}

static int open_span(struct sieve *s, timeline_fn fn, void *ctx)
{
	struct live_row *rows = calloc(s->live.cnt + 1, sizeof(*rows));
	int r = 0;

	s->is_open = true;
	if (!rows)
		return -ENOMEM;
	if (s->in_gap) /* what lived then is not known */
		r = fn(ctx, &(struct tl_event){ .ts_ns = s->span.from_ns, .kind = TL_GAP, .version = 1 });
	for (uint32_t i = 0; i < s->live.cnt; i++)
		rows[i] = *(struct live_row *)map__at(&s->live, i);
	qsort(rows, s->live.cnt, sizeof(*rows), u64_cmp);
	for (uint32_t i = 0, cnt = s->live.cnt; i < cnt && !r; i++)
		if (is_category_of(s, rows[i].id, rows[i].alloc.version))
			r = tell_late(s, map__find(&s->live, rows[i].id), s->span.from_ns, fn, ctx);
	free(rows);
	return r ? r : tell_totals(s, fn, ctx);
}

static int on_alloc(struct sieve *s, const struct tl_event *ev, timeline_fn fn, void *ctx)
{
	struct live_row *row;

	if (!sieve__is_whose(s, ev) || !sieve__is_made(s, ev))
		return 0;
	row = map__put(&s->live, ev->id);
	if (!row)
		return -ENOMEM;
	row->alloc = *ev;
	if (ev->learned)
		row->learned = *ev->learned;
	row->is_out = is_within(s, ev->ts_ns) && is_category_of(s, ev->id, ev->version);
	return row->is_out ? fn(ctx, ev) : 0;
}

static int on_version(struct sieve *s, struct live_row *row, const struct tl_event *ev, timeline_fn fn, void *ctx)
{
	bool is_wanted = is_category_of(s, ev->id, ev->version);
	struct tl_event ends = *ev;

	row->alloc.version = ev->version;
	row->alloc.cat = ev->cat;
	if (!is_within(s, ev->ts_ns))
		return 0;
	if (row->is_out && is_wanted)
		return fn(ctx, ev);
	if (!row->is_out)
		return is_wanted ? tell_late(s, row, ev->ts_ns, fn, ctx) : 0;
	row->is_out = false;
	ends.kind = TL_DESTROY;
	ends.version = ev->version - 1;
	ends.depth = UINT8_MAX; /* unknown: how many frames are open */
	ends.learned = row->alloc.learned ? &row->learned : NULL;
	return fn(ctx, &ends);
}

static int on_block(struct sieve *s, const struct tl_event *ev, timeline_fn fn, void *ctx)
{
	struct live_row *row = map__find(&s->live, ev->id);
	bool is_out = row && row->is_out;

	if (!row)
		return 0;
	if (ev->kind == TL_VERSION)
		return on_version(s, row, ev, fn, ctx);
	if (ev->kind == TL_DESTROY)
		map__remove(&s->live, row);
	return is_out && is_within(s, ev->ts_ns) ? fn(ctx, ev) : 0;
}

int sieve__event(struct sieve *s, const struct tl_event *ev, timeline_fn fn, void *ctx)
{
	int r = 0;

	if (!s->is_open && ev->ts_ns > s->span.from_ns)
		r = open_span(s, fn, ctx);
	if (r)
		return r;
	switch (ev->kind) {
	case TL_CREATE:
	case TL_PREEXISTING:
		return on_alloc(s, ev, fn, ctx);
	case TL_VERSION:
	case TL_LABEL:
	case TL_TAG:
	case TL_DESTROY:
		return on_block(s, ev, fn, ctx);
	case TL_STACK: /* later events refer to it */
		return fn(ctx, ev);
	case TL_GAP:
		s->in_gap = ev->version != 0;
		return is_within(s, ev->ts_ns) ? fn(ctx, ev) : 0;
	case TL_TOTALS:
		if (!s->is_open)
			return sieve__is_whose(s, ev) ? keep_totals(s, ev) : 0;
		/* fall through */
	case TL_OOM:
		return is_within(s, ev->ts_ns) && sieve__is_whose(s, ev) ? fn(ctx, ev) : 0;
	default:
		return is_within(s, ev->ts_ns) && pid_is_one_of(s->pids, s->pids_cnt, ev->pid) ? fn(ctx, ev) : 0;
	}
}

int sieve__end(struct sieve *s, timeline_fn fn, void *ctx)
{
	return s->is_open ? 0 : open_span(s, fn, ctx);
}
