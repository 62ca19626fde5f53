/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Five unlinked files under TMPDIR, mapped and grown as needed: a byte a block (its category + 1, or
 * MANY), the versions of the few blocks with several labels, the preexisting blocks, what
 * Python called blocks, and what was learned of some. Pages that are
 * not used leave memory for the disk. Room is reserved before it is touched, so that a full disk is an
 * error and not a signal. Entries of versions come in the order in which blocks were settled; they are
 * sorted once, in place, when the first one is asked for after the last one came.
 */
#include "timeline/labels.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/spool.h"

#define IDS_MAX (1ull << 34) /* ids are dense: 16 GiB of bytes, more blocks than a recording of a TiB has */
#define GROW_MIN (1u << 16)
#define GROW_MAX (1u << 26)
#define MANY 255

_Static_assert(CAT_MAX < MANY, "a category is one byte");

struct spill {
	int fd;
	uint8_t *map;
	uint64_t bytes; /* of the file */
};

struct label_entry {
	uint64_t id;
	uint32_t version;
	uint32_t cat;
};

/* TL_LEARNED. */
struct learned_entry {
	uint64_t id;
	struct tl_learned v;
};

/* TL_MODULE. */
struct module_name {
	uint64_t number;
	name_id path, root;
};

struct labels {
	struct spill cats, entries, late, names, learned;
	uint64_t ids; /* cats has 0 .. ids - 1 */
	size_t entries_cnt, late_cnt, names_cnt, learned_cnt;
	struct map modules; /* struct module_name */
	bool sorted, names_sorted, learned_sorted;
	bool has_allocs, has_gap; /* has_gap: one that followed something traced */
	uint64_t last_id;	  /* of a block reported as preexisting before that */
};

static int spill__open(struct spill *s)
{
	s->fd = spool_open();
	return s->fd < 0 ? s->fd : 0;
}

static void spill__done(struct spill *s)
{
	if (s->map)
		munmap(s->map, s->bytes);
	if (s->fd >= 0)
		close(s->fd);
}

/* Room for `bytes`; what is new is 0. */
static int spill__reserve(struct spill *s, uint64_t bytes)
{
	uint64_t to = s->bytes < GROW_MIN ? GROW_MIN : s->bytes + (s->bytes < GROW_MAX ? s->bytes : GROW_MAX);
	void *map;
	int r;

	if (bytes <= s->bytes)
		return 0;
	if (to < bytes)
		to = (bytes + GROW_MIN - 1) & ~(uint64_t)(GROW_MIN - 1);
	r = posix_fallocate(s->fd, (off_t)s->bytes, (off_t)(to - s->bytes));
	if (r)
		return -r;
	map = s->map ? mremap(s->map, s->bytes, to, MREMAP_MAYMOVE)
		     : mmap(NULL, to, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	s->map = map;
	s->bytes = to;
	return 0;
}

int labels__new(struct labels **ret, struct err *err)
{
	struct labels *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->cats.fd = l->entries.fd = l->late.fd = l->names.fd = l->learned.fd = -1;
	l->modules = MAP_OF(struct module_name);
	l->sorted = l->names_sorted = l->learned_sorted = true;
	r = spill__open(&l->cats);
	r = r ? r : spill__open(&l->entries);
	r = r ? r : spill__open(&l->late);
	r = r ? r : spill__open(&l->names);
	r = r ? r : spill__open(&l->learned);
	r = r ? r : spill__reserve(&l->cats, 1);
	if (r < 0) {
		labels__free(l);
		err_set(err, r, "a temporary file for labels: %s", strerror(-r));
		return err_hint(err, "TMPDIR (or /tmp) must be a directory that can be written");
	}
	*ret = l;
	return 0;
}

void labels__free(struct labels *l)
{
	if (!l)
		return;
	map__done(&l->modules);
	spill__done(&l->cats);
	spill__done(&l->entries);
	spill__done(&l->late);
	spill__done(&l->names);
	spill__done(&l->learned);
	free(l);
}

/* --- taking ------------------------------------------------------------------------------------------------ */

static int labels__push(struct labels *l, struct label_entry e)
{
	int r = spill__reserve(&l->entries, (l->entries_cnt + 1) * sizeof(e));

	if (r < 0)
		return r;
	((struct label_entry *)l->entries.map)[l->entries_cnt++] = e;
	l->sorted = false;
	return 0;
}

static int labels__final(struct labels *l, uint64_t id, uint32_t version, uint8_t cat)
{
	uint8_t was;
	int r;

	if (!id || id >= IDS_MAX || cat >= CAT_MAX)
		return -ERANGE;
	r = spill__reserve(&l->cats, id + 1);
	if (r < 0)
		return r;
	was = l->cats.map[id];
	if (id >= l->ids)
		l->ids = id + 1;
	if (!was) {
		l->cats.map[id] = (uint8_t)(cat + 1);
		return 0;
	}
	if (was != MANY) {
		r = labels__push(l, (struct label_entry){ .id = id, .cat = was - 1u });
		if (r < 0)
			return r;
		l->cats.map[id] = MANY;
	}
	return labels__push(l, (struct label_entry){ .id = id, .version = version, .cat = cat });
}

static int labels__late(struct labels *l, const struct tl_event *ev)
{
	int r = spill__reserve(&l->late, (l->late_cnt + 1) * sizeof(struct labels_late));

	if (r < 0)
		return r;
	((struct labels_late *)l->late.map)[l->late_cnt++] = (struct labels_late){
		.ts_ns = ev->ts_ns, .id = ev->id, .ptr = ev->ptr, .size = ev->size, .pid = ev->pid, .dev = ev->dev,
	};
	return 0;
}

static int labels__add_name(struct labels *l, const struct tl_event *ev)
{
	int r = spill__reserve(&l->names, (l->names_cnt + 1) * sizeof(struct labels_name));

	if (r < 0)
		return r;
	((struct labels_name *)l->names.map)[l->names_cnt] = (struct labels_name){
		.id = ev->id, .order = l->names_cnt, .path = ev->op, .root = ev->region, .type = ev->type, .key = ev->key,
		.kind = ev->depth,
	};
	l->names_cnt++;
	l->names_sorted = false;
	return 0;
}

/* Of one process they come in the order of their ids. */
static int labels__add_learned(struct labels *l, const struct tl_event *ev)
{
	struct learned_entry *e;
	int r = spill__reserve(&l->learned, (l->learned_cnt + 1) * sizeof(*e));

	if (r < 0)
		return r;
	e = (struct learned_entry *)l->learned.map + l->learned_cnt;
	*e = (struct learned_entry){ ev->id, *ev->learned };
	l->learned_sorted &= !l->learned_cnt || e[-1].id < ev->id;
	l->learned_cnt++;
	return 0;
}

static int labels__add_module(struct labels *l, const struct tl_event *ev)
{
	struct module_name *n = map__put(&l->modules, ev->id);

	if (!n)
		return -ENOMEM;
	n->path = ev->op;
	n->root = ev->region;
	return 0;
}

/* A block seen late after a gap may have been allocated in the gap. */
static int labels__preexisting(struct labels *l, const struct tl_event *ev)
{
	if (l->has_gap)
		return 0;
	l->last_id = ev->id;
	return labels__late(l, ev);
}

int labels__event(void *labels, const struct tl_event *ev)
{
	struct labels *l = labels;

	l->has_allocs |= ev->kind == TL_CREATE || (ev->kind == TL_GAP && !ev->version);
	if (ev->kind == TL_GAP && ev->version && l->has_allocs)
		l->has_gap = true;
	if (ev->kind == TL_FINAL)
		return labels__final(labels, ev->id, ev->version, ev->cat);
	if (ev->kind == TL_NAME)
		return labels__add_name(l, ev);
	if (ev->kind == TL_LEARNED)
		return labels__add_learned(l, ev);
	if (ev->kind == TL_MODULE)
		return labels__add_module(l, ev);
	return ev->kind == TL_PREEXISTING ? labels__preexisting(l, ev) : 0;
}

/* --- asking ------------------------------------------------------------------------------------------------- */

static bool label_entry__after(const struct label_entry *a, const struct label_entry *b)
{
	return a->id != b->id ? a->id > b->id : a->version > b->version;
}

/* Heapsort: qsort takes as much memory again. */
static void labels__sort(struct labels *l)
{
	struct label_entry *e = (struct label_entry *)l->entries.map;

	heap_make(e, l->entries_cnt, label_entry__after);
	for (size_t cnt = l->entries_cnt; cnt > 1; cnt--) {
		struct label_entry top = e[0];

		e[0] = e[cnt - 1];
		e[cnt - 1] = top;
		heap_down(e, cnt - 1, 0, label_entry__after);
	}
	l->sorted = true;
}

void labels__module(const struct labels *l, struct tl_event *ev)
{
	const struct module_name *n = ev->module_number ? map__find(&l->modules, ev->module_number) : NULL;

	if (!n)
		return;
	ev->module = n->path;
	ev->root = n->root;
	ev->module_number = 0;
}

enum category labels__get(const struct labels *l, uint64_t id, uint32_t version)
{
	const struct label_entry want = { .id = id, .version = version }, *e;
	size_t lo = 0, hi = l->entries_cnt;
	uint8_t cat = id < l->ids ? l->cats.map[id] : 0;

	if (cat != MANY)
		return cat ? cat - 1 : CAT_UNKNOWN;
	if (!l->sorted)
		labels__sort((struct labels *)l);
	e = (const struct label_entry *)l->entries.map;
	while (lo < hi) { /* the first one behind */
		size_t mid = lo + (hi - lo) / 2;

		if (label_entry__after(&e[mid], &want))
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo && e[lo - 1].id == id ? (enum category)e[lo - 1].cat : CAT_UNKNOWN;
}

static int by_id(const void *pa, const void *pb)
{
	const struct labels_name *a = pa, *b = pb;

	return cmp_up(a->id, b->id) ?: cmp_up(a->order, b->order);
}

bool labels__name(const struct labels *l, uint64_t id, struct labels_name *ret)
{
	struct labels_name *n = (struct labels_name *)l->names.map;
	size_t lo = 0, hi = l->names_cnt;

	if (!l->names_sorted) {
		qsort(n, l->names_cnt, sizeof(*n), by_id);
		((struct labels *)l)->names_sorted = true;
	}
	while (lo < hi) { /* the first one behind */
		size_t mid = lo + (hi - lo) / 2;

		if (n[mid].id > id)
			hi = mid;
		else
			lo = mid + 1;
	}
	if (!lo || n[lo - 1].id != id)
		return false;
	*ret = n[lo - 1];
	return true;
}

static bool labels__learned(const struct labels *l, uint64_t id, struct tl_learned *ret)
{
	struct learned_entry *e = (struct learned_entry *)l->learned.map;
	size_t lo = 0, hi = l->learned_cnt;

	if (!l->learned_sorted) {
		qsort(e, l->learned_cnt, sizeof(*e), u64_cmp);
		((struct labels *)l)->learned_sorted = true;
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (e[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == l->learned_cnt || e[lo].id != id)
		return false;
	*ret = e[lo].v;
	return true;
}

void labels__learn(const struct labels *l, struct tl_event *ev, struct tl_learned *learned)
{
	ev->learned = labels__learned(l, ev->id, learned) ? learned : NULL;
}

enum category labels__likely(const struct labels *l, uint64_t id, uint32_t version)
{
	enum category measured = labels__get(l, id, version);
	struct tl_learned learned;

	if (!category_is_none(measured) || !labels__learned(l, id, &learned) || learned.cat >= CAT_MAX)
		return measured;
	return (enum category)learned.cat;
}

bool labels__was_there(const struct labels *l, uint64_t id)
{
	return !l->has_gap || id <= l->last_id;
}

int labels__next_late(const struct labels *l, size_t *pos, struct labels_late *ret)
{
	if (*pos >= l->late_cnt)
		return -ENOENT;
	*ret = ((const struct labels_late *)l->late.map)[(*pos)++];
	return 0;
}
