/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "event/decode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "event/kinds.h"
#include "event/packed.h"

#define HASHES_MAX NAMES_MAX /* one for each name at most */

struct hash_name {
	uint64_t hash;
	name_id name;
};

struct vtables {
	uint32_t pid;
	size_t cnt;
	struct vtable *v; /* sorted by addr */
};

struct decode {
	struct names *names;
	struct map hashes; /* struct hash_name */
	struct vtables *procs;
	size_t procs_cnt;
	size_t last_proc;
	uint64_t bad_cnt;
};

struct decode *decode__new(struct names *names)
{
	struct decode *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->names = names;
	d->hashes = MAP_OF(struct hash_name);
	return d;
}

void decode__free(struct decode *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->procs_cnt; i++)
		free(d->procs[i].v);
	free(d->procs);
	map__done(&d->hashes);
	free(d);
}

/* --- run-time names --------------------------------------------------------------------------- */

static int decode__add_name(struct decode *d, const struct mt_rec_name *r)
{
	size_t len = strnlen(r->text, sizeof(r->text));
	struct hash_name *s;
	name_id name;

	if (!r->hash || (d->hashes.cnt >= HASHES_MAX && !map__find(&d->hashes, r->hash)))
		return 0;
	name = names__add_of(d->names, r->hdr.pid, r->text, len);
	if (!strcmp(names__get(d->names, name), "?"))
		return 0; /* its process has used up its share: a hash that is not known reads as the same */
	s = map__put(&d->hashes, r->hash);
	if (s)
		s->name = name;
	return 0;
}

/* Operators that were called boxed, nodes that Python defined: the others have their names from their plan. */
uint64_t decode__hash_of(const struct decode *d, name_id name)
{
	for (uint32_t i = 0; name.v && i < d->hashes.cnt; i++)
		if (((const struct hash_name *)map__at(&d->hashes, i))->name.v == name.v)
			return map__key(&d->hashes, i);
	return 0;
}

static int has_hash(const struct event *ev)
{
	return (ev->kind == MT_EV_OP && (ev->flags & MT_OP_BY_HASH)) ||
	       (ev->kind == MT_EV_NODE && (ev->flags & MT_NODE_PYTHON));
}

static void decode__resolve_node(struct decode *d, struct event *ev)
{
	const struct hash_name *s = map__find(&d->hashes, ev->addr);

	ev->name = s ? s->name : names__add(d->names, "autograd node");
	ev->addr = 0;
}

/* --- places ------------------------------------------------------------------------------------- */

/* Unlike any other name, and never shown. A hash that is reported again later is the same place. */
int decode__place(struct decode *d, const void *rec, size_t len, name_id *ret)
{
	const struct mt_rec_place *r = rec;
	struct hash_name *s;
	char text[80];
	name_id name;
	int n;

	if (len != sizeof(*r) || r->hdr.kind != MT_EV_PLACE) {
		d->bad_cnt++;
		return -EBADMSG;
	}
	s = map__find(&d->hashes, r->hash);
	if (s) {
		*ret = s->name;
		return 0;
	}
	if (d->hashes.cnt >= HASHES_MAX)
		return -ENOSPC;
	n = snprintf(text, sizeof(text), "place %016llx %llu", (unsigned long long)r->hash, (unsigned long long)r->hdr.ts_ns);
	name = names__add_of(d->names, r->hdr.pid, text, (size_t)n);
	if (!strcmp(names__get(d->names, name), "?"))
		return -ENOSPC;
	s = map__put(&d->hashes, r->hash);
	if (!s)
		return -ENOSPC;
	s->name = *ret = name;
	return 1;
}

/* The hash, until decode__resolve: an allocation has no other use for these two before. */
static void put_place(struct event *ev, uint64_t hash)
{
	ev->name.v = (uint32_t)hash;
	ev->aux = (uint32_t)(hash >> 32);
}

static void resolve_place(struct decode *d, struct event *ev)
{
	uint64_t hash = ev->name.v | (uint64_t)ev->aux << 32;
	const struct hash_name *s = hash ? map__find(&d->hashes, hash) : NULL;

	ev->name = s ? s->name : NAME_NONE;
	ev->aux = 0;
}

void decode__resolve(struct decode *d, struct event *ev)
{
	const struct hash_name *s;

	if (ev->kind == MT_EV_ALLOC && (ev->name.v || ev->aux))
		resolve_place(d, ev);
	if (ev->kind != MT_EV_OP_BEGIN && ev->kind != MT_EV_REGION_BEGIN && ev->kind != MT_EV_TAG && !has_hash(ev))
		return;
	if (ev->kind == MT_EV_NODE) { /* size is its number */
		decode__resolve_node(d, ev);
		return;
	}
	s = ev->size ? map__find(&d->hashes, ev->size) : NULL;
	if (ev->size)
		ev->name = s ? s->name : NAME_NONE;
	if (!ev->name.v)
		ev->name = names__add(d->names, "?"); /* unreadable, or its text was lost: counted there */
	ev->size = 0;
}

/* --- backward nodes ---------------------------------------------------------------------------- */

static struct vtables *decode__proc(struct decode *d, uint32_t pid)
{
	if (d->last_proc < d->procs_cnt && d->procs[d->last_proc].pid == pid)
		return &d->procs[d->last_proc];
	for (size_t i = 0; i < d->procs_cnt; i++) {
		if (d->procs[i].pid == pid) {
			d->last_proc = i;
			return &d->procs[i];
		}
	}
	return NULL;
}

int decode__add_vtables(struct decode *d, uint32_t pid, const struct vtable *v, size_t cnt)
{
	struct vtables *p = decode__proc(d, pid);

	if (!cnt)
		return 0;
	if (!p) {
		if (!array_has_one_more(d->procs, d->procs_cnt))
			return -ENOMEM;
		p = &d->procs[d->procs_cnt++];
		*p = (struct vtables){ .pid = pid };
	}
	if (!array_resized(p->v, p->cnt + cnt))
		return -ENOMEM;
	memcpy(p->v + p->cnt, v, cnt * sizeof(*v));
	p->cnt += cnt;
	qsort(p->v, p->cnt, sizeof(*p->v), u64_cmp);
	return 0;
}

void decode__drop_pid(struct decode *d, uint32_t pid)
{
	struct vtables *p = decode__proc(d, pid);

	if (!p)
		return;
	free(p->v);
	*p = d->procs[--d->procs_cnt];
	d->last_proc = 0;
}

static name_id node_name(struct decode *d, uint32_t pid, uint64_t vtable)
{
	const struct vtables *p = decode__proc(d, pid);
	struct vtable key = { .addr = vtable }, *hit = NULL;

	if (p && p->cnt)
		hit = bsearch(&key, p->v, p->cnt, sizeof(key), u64_cmp);
	/* Classes that no library exports: Python's own autograd functions, C++ extensions. */
	return hit ? hit->name : names__add(d->names, "autograd node");
}

/* --- records -------------------------------------------------------------------------------------- */

static int is_flow(uint8_t kind, size_t len)
{
	const size_t head = sizeof(struct mt_rec_flow), each = sizeof(struct mt_flow_arg);

	return (kind == MT_EV_OP || kind == MT_EV_APPLY || kind == MT_EV_ACC || kind == MT_EV_SAVED) && len >= head &&
	       (len - head) % each == 0 && (len - head) / each <= MT_FLOW_ARGS_MAX;
}

/* Fills in the fields that come from the record's two words, whose meaning depends on its kind. */
static void decode__words(struct decode *d, struct event *ev, uint64_t addr, uint64_t size)
{
	switch (ev->kind) {
	case MT_EV_OP:
		if (ev->flags & MT_OP_BY_HASH)
			ev->size = addr; /* until decode__resolve */
		else
			ev->name.v = addr <= names__last(d->names) ? (uint32_t)addr : 0;
		break;
	case MT_EV_ACC:
		ev->name = names__add(d->names, "torch::autograd::AccumulateGrad");
		break;
	case MT_EV_NODE:
		ev->size = size; /* its number, until its module is known (event/pairing.h) */
		if (ev->flags & MT_NODE_PYTHON)
			ev->addr = addr; /* until decode__resolve */
		else
			ev->name = node_name(d, ev->pid, addr);
		break;
	case MT_EV_APPLY:
		ev->name = node_name(d, ev->pid, addr);
		break;
	case MT_EV_OP_BEGIN:
		ev->size = addr; /* the hash, until decode__resolve */
		break;
	case MT_EV_REGION_BEGIN:
		ev->size = addr;
		ev->aux = (uint32_t)size;
		break;
	case MT_EV_REGION_END:
		ev->aux = (uint32_t)size;
		break;
	case MT_EV_OP_END:
		break;
	default:
		ev->addr = addr;
		ev->size = size;
	}
}

static void decode__seg(struct decode *d, struct event *ev, const struct mt_rec_seg *s)
{
	ev->addr = s->addr;
	ev->size = s->size;
	ev->aux = event_fold(s->aux);
	ev->name.v = s->api <= names__last(d->names) ? s->api : 0;
}

int decode__record(struct decode *d, const void *rec, size_t len, struct event *ret)
{
	const struct mt_hdr *h = rec;
	const struct mt_rec_mem *m = rec;
	size_t want;

	if (len < sizeof(*h)) {
		d->bad_cnt++;
		return -EBADMSG;
	}
	want = is_flow(h->kind, len) ? len : event_wire_bytes(h->kind);
	if (!want || len != want || (is_flow(h->kind, len) &&
				     len != sizeof(struct mt_rec_flow) + ((const struct mt_rec_flow *)rec)->args_cnt *
									 sizeof(struct mt_flow_arg))) {
		d->bad_cnt++;
		return -EBADMSG;
	}
	if (h->kind == MT_EV_NAME)
		return decode__add_name(d, rec);
	if (h->kind == MT_EV_PLACE) {
		name_id place;

		(void)decode__place(d, rec, len, &place);
		return 0;
	}
	*ret = (struct event){
		.ts_ns = h->ts_ns,
		.pid = h->pid,
		.tid = h->tid,
		.seq = h->seq,
		.kind = h->kind,
		.dev = h->dev,
		.depth = h->depth,
		.flags = h->flags,
	};
	if (h->kind == MT_EV_ALLOC_AT) {
		ret->kind = MT_EV_ALLOC;
		put_place(ret, ((const struct mt_rec_at *)rec)->place);
	}
	if (want == sizeof(struct mt_rec_seg))
		decode__seg(d, ret, rec);
	else
		decode__words(d, ret, m->addr, want >= sizeof(*m) ? m->size : 0);
	return 1;
}

size_t decode__args_cnt(const void *rec, size_t len)
{
	const struct mt_hdr *h = rec;

	return is_flow(h->kind, len) ? (len - sizeof(struct mt_rec_flow)) / sizeof(struct mt_flow_arg) : 0;
}

void decode__arg(const void *rec, size_t i, const struct event *ev, struct event *ret)
{
	const struct mt_flow_arg *a = (const struct mt_flow_arg *)((const struct mt_rec_flow *)rec + 1) + i;
	int opens_frame = ev->kind != MT_EV_SAVED;

	*ret = (struct event){
		.ts_ns = ev->ts_ns,
		.pid = ev->pid,
		.tid = ev->tid,
		.seq = ev->seq,
		.kind = opens_frame ? EV_ARG : MT_EV_SAVED,
		.dev = a->dev,
		.flags = a->class,
		.depth = opens_frame && ev->depth < MT_FRAMES_MAX ? (uint8_t)(ev->depth + 1) : ev->depth,
		.addr = a->ptr,
		.size = a->size,
		.aux = event_arg_aux(a->index, a->flags, a->item),
	};
}

uint64_t decode__bad_cnt(const struct decode *d)
{
	return d->bad_cnt;
}
