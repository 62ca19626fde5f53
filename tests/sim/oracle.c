/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What happened, written down. Comparing it with a report is in oracle_compare.c. */
#include "sim/oracle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void o_failed(const char *file, int line, const char *cond, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: %s: ", file, line, cond);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

static void *grown(void *p, size_t cnt, size_t *cap, size_t size)
{
	if (cnt < *cap)
		return p;
	*cap = *cap ? 2 * *cap : 16;
	p = realloc(p, *cap * size);
	o_must(p != NULL, "no memory");
	return p;
}
#define PUSH(arr, cnt, cap, ...)                                                                   \
	((arr) = grown(arr, cnt, &(cap), sizeof(*(arr))), (arr)[(cnt)++] = (__VA_ARGS__))

void oracle__init(struct oracle *o)
{
	memset(o, 0, sizeof(*o));
}

void oracle__done(struct oracle *o)
{
	for (int i = 0; i < 256; i++) {
		free(o->devs[i].changes);
		free(o->devs[i].at_peak);
	}
	free(o->blocks);
	free(o->lives);
	free(o->counts);
	free(o->rss);
}

/* --- processes ------------------------------------------------------------------------------------- */

static struct o_life *oracle__find_life(struct oracle *o, uint32_t pid)
{
	for (size_t i = o->lives_cnt; i--;)
		if (o->lives[i].pid == pid)
			return &o->lives[i];
	return NULL;
}

static struct o_life *oracle__new_life(struct oracle *o, uint32_t pid)
{
	PUSH(o->lives, o->lives_cnt, o->lives_cap, (struct o_life){ .pid = pid });
	return &o->lives[o->lives_cnt - 1];
}

static struct o_life *oracle__life(struct oracle *o, uint32_t pid)
{
	struct o_life *l = oracle__find_life(o, pid);

	return l ? l : oracle__new_life(o, pid);
}

static uint64_t rss_of(const struct o_life *l)
{
	return l->rss[MT_RSS_FILE] + l->rss[MT_RSS_ANON] + l->rss[MT_RSS_SHMEM];
}

static void oracle__note_rss(struct oracle *o)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < o->lives_cnt; i++)
		sum += rss_of(&o->lives[i]);
	PUSH(o->rss, o->rss_cnt, o->rss_cap, (struct o_change){ o->now, sum });
}

/* --- blocks ---------------------------------------------------------------------------------------- */

static struct o_block *oracle__find(struct oracle *o, uint32_t pid, uint8_t dev, uint64_t ptr)
{
	for (size_t i = o->blocks_cnt; i--;) {
		struct o_block *b = &o->blocks[i];

		if (b->live && b->pid == pid && b->dev == dev && b->ptr == ptr)
			return b;
	}
	return NULL;
}

static void oracle__set_live(struct oracle *o, struct o_dev *d, uint64_t live)
{
	d->live = live;
	PUSH(d->changes, d->changes_cnt, d->changes_cap, (struct o_change){ o->now, live });
}

static void oracle__peak(struct oracle *o, struct o_dev *d)
{
	d->peak = d->live;
	d->peak_ts = o->now;
	d->at_peak_cnt = 0;
	for (size_t i = 0; i < o->blocks_cnt; i++)
		if (o->blocks[i].live && o->blocks[i].dev == d->dev)
			PUSH(d->at_peak, d->at_peak_cnt, d->at_peak_cap, i);
}

static void oracle__end(struct oracle *o, struct o_block *b)
{
	struct o_life *l = &o->lives[b->life];
	struct o_dev *d = &o->devs[b->dev];

	b->live = 0;
	b->freed = o->now;
	*(b->dev == MT_DEV_HOST ? &l->host_live : &l->live) -= b->size;
	oracle__set_live(o, d, d->live - b->size);
}

static void oracle__freed(struct oracle *o, struct o_block *b)
{
	struct o_dev *d = &o->devs[b->dev];
	struct o_life *l = &o->lives[b->life];

	oracle__end(o, b);
	d->frees++;
	d->free_bytes += b->size;
	++*(b->dev == MT_DEV_HOST ? &l->host_frees : &l->frees);
}

static void oracle__drop(struct oracle *o, uint32_t pid)
{
	for (size_t i = 0; i < o->blocks_cnt; i++) {
		struct o_block *b = &o->blocks[i];

		if (!b->live || b->pid != pid)
			continue;
		o->devs[b->dev].dropped++;
		o->devs[b->dev].dropped_bytes += b->size;
		oracle__end(o, b);
	}
}

static struct o_dev *oracle__dev(struct oracle *o, uint8_t dev)
{
	if (dev != MT_DEV_CPU && dev != MT_DEV_HOST && (dev < 16 || dev > 79)) {
		o->lost[MT_LOSS_DECODE]++;
		return NULL;
	}
	o->devs[dev].dev = dev;
	o->devs[dev].seen = 1;
	return &o->devs[dev];
}

static size_t oracle__live_cnt(const struct oracle *o)
{
	size_t cnt = 0;

	for (size_t i = 0; i < o->blocks_cnt; i++)
		cnt += (size_t)o->blocks[i].live;
	return cnt;
}

static void oracle__alloc(struct oracle *o, const struct event *ev, const struct o_truth *truth)
{
	struct o_block *old;
	struct o_life *l;
	struct o_dev *d;

	if (!ev->addr || (!ev->size && ev->dev != MT_DEV_HOST))
		return;
	d = oracle__dev(o, ev->dev);
	if (!d)
		return;
	l = oracle__life(o, ev->pid);
	if (l->gone == 1)
		return;
	if (ev->size > (1ull << 57) - d->live) {
		o->lost[MT_LOSS_DECODE]++;
		return;
	}
	o->lost[MT_LOSS_FRAME] += (uint64_t)truth->lost;
	old = oracle__find(o, ev->pid, ev->dev, ev->addr);
	if (old) {
		o->lost[MT_LOSS_REUSE]++;
		oracle__freed(o, old);
	}
	if (o->blocks_max && oracle__live_cnt(o) >= o->blocks_max) {
		o->lost[MT_LOSS_BLOCKS]++;
		return;
	}
	PUSH(o->blocks, o->blocks_cnt, o->blocks_cap,
	     (struct o_block){ .id = ++o->last_id, .ptr = ev->addr, .size = ev->size,
			       .allocated = o->now, .pid = ev->pid, .tid = ev->tid, .dev = ev->dev,
			       .op = truth->op, .region = truth->region, .live = 1,
			       .life = (uint32_t)(l - o->lives) });
	d->allocs++;
	d->alloc_bytes += ev->size;
	oracle__set_live(o, d, d->live + ev->size);
	if (d->live > d->peak)
		oracle__peak(o, d);
	if (ev->dev == MT_DEV_HOST) {
		l->host_allocs++;
		l->host_live += ev->size;
		l->host_peak = l->host_live > l->host_peak ? l->host_live : l->host_peak;
	} else {
		l->allocs++;
		l->live += ev->size;
		l->peak = l->live > l->peak ? l->live : l->peak;
	}
}

/* A free that does not say its device belongs to a block that lives there, else to the first GPU. */
static uint8_t oracle__whose(const struct oracle *o, const struct event *ev)
{
	for (size_t i = 0; ev->dev == MT_DEV_NONE && i < o->blocks_cnt; i++) {
		const struct o_block *b = &o->blocks[i];

		if (b->live && b->pid == ev->pid && b->ptr == ev->addr && b->dev != MT_DEV_HOST)
			return b->dev;
	}
	return ev->dev == MT_DEV_NONE ? MT_DEV_CUDA0 : ev->dev;
}

static void oracle__free(struct oracle *o, const struct event *ev)
{
	uint8_t dev = oracle__whose(o, ev);
	struct o_block *b;
	struct o_dev *d;

	if (!ev->addr)
		return;
	d = oracle__dev(o, dev);
	if (!d || oracle__life(o, ev->pid)->gone == 1)
		return;
	b = oracle__find(o, ev->pid, dev, ev->addr);
	if (b) {
		oracle__freed(o, b);
		return;
	}
	d->preexisting++;
	o->last_id++;
}

/* --- the rest --------------------------------------------------------------------------------------- */

static void oracle__count(struct oracle *o, const struct event *ev, int is_node, int is_region)
{
	if (oracle__life(o, ev->pid)->gone == 1)
		return;
	for (size_t i = 0; i < o->counts_cnt; i++) {
		struct o_count *c = &o->counts[i];

		if (c->name.v == ev->name.v && c->is_node == is_node && c->is_region == is_region) {
			c->count++;
			return;
		}
	}
	PUSH(o->counts, o->counts_cnt, o->counts_cap,
	     (struct o_count){ ev->name, is_node, is_region, 1 });
}

static void oracle__exit(struct oracle *o, struct o_life *l)
{
	uint32_t pid = l->pid;

	l->live_at_exit = l->peak ? l->live : l->host_live;
	oracle__drop(o, pid);
	memset(l->pages, 0, sizeof(l->pages));
	memset(l->rss, 0, sizeof(l->rss));
	l->brk_seen = 0;
	l->brk_growth = 0;
	l->gone = 1;
	oracle__note_rss(o);
}

static void oracle__proc(struct oracle *o, const struct event *ev)
{
	struct o_life *l = oracle__find_life(o, ev->pid);

	if (l && l->gone != 1 && l->reported && ev->flags != EV_PROC_EXECED && ev->size && l->start &&
	    l->start != ev->size)
		oracle__exit(o, l);
	if (!l || l->gone == 1) {
		l = oracle__new_life(o, ev->pid);
	} else if (ev->flags == EV_PROC_EXECED) {
		oracle__drop(o, ev->pid);
		memset(l->pages, 0, sizeof(l->pages));
		l->brk_seen = 0;
		l->brk_growth = 0;
		l->remap_tid = 0;
	}
	l->reported = 1;
	l->gone = 0;
	l->how = ev->flags;
	l->comm = ev->name;
	l->cmdline = (name_id){ (uint32_t)ev->addr };
	l->ppid = ev->aux ? ev->aux : l->ppid;
	l->start = ev->size ? ev->size : l->start;
}

static uint64_t pages_cnt(const struct o_life *l)
{
	uint64_t cnt = 0;

	for (int i = 0; i < ORACLE_PAGES; i++)
		cnt += l->pages[i];
	return cnt * ORACLE_PAGE;
}

static void oracle__map(struct o_life *l, const struct event *ev)
{
	size_t at = (ev->addr - ORACLE_MAP_BASE) / ORACLE_PAGE, cnt = ev->size / ORACLE_PAGE;
	int anon = ev->flags & MT_MAP_ANON, was = 0;

	if (ev->kind == MT_EV_MMAP && (ev->flags & MT_MAP_REMAP)) {
		anon = l->remap_tid && l->remap_tid == ev->tid;
		if (!(ev->flags & MT_MAP_STAYS))
			l->remap_tid = 0;
	}
	for (size_t i = at; i < at + cnt && i < ORACLE_PAGES; i++) {
		was |= l->pages[i];
		l->pages[i] = ev->kind == MT_EV_MMAP && anon;
	}
	if (ev->kind == MT_EV_MUNMAP && (ev->flags & MT_MAP_REMAP))
		l->remap_tid = was ? ev->tid : 0;
	if (ev->kind == MT_EV_MMAP && pages_cnt(l) > l->mapped_peak)
		l->mapped_peak = pages_cnt(l);
}

static void oracle__living(struct oracle *o, const struct event *ev)
{
	struct o_life *l = oracle__life(o, ev->pid);

	if (ev->kind == EV_CPU) {
		if (!l->cpu_seen)
			l->cpu_first = ev->size;
		l->cpu_seen = 1;
		l->cpu = ev->size > l->cpu_first ? ev->size - l->cpu_first : 0;
		return;
	}
	if (l->gone == 1)
		return;
	if (ev->kind == EV_COMM && (!ev->tid || ev->tid == ev->pid))
		l->comm = ev->name;
	if (ev->kind == MT_EV_RSS) {
		l->rss[ev->addr] = ev->size;
		l->rss_peak = rss_of(l) > l->rss_peak ? rss_of(l) : l->rss_peak;
		oracle__note_rss(o);
	}
	if (ev->kind == MT_EV_MMAP || ev->kind == MT_EV_MUNMAP)
		oracle__map(l, ev);
	if (ev->kind == MT_EV_BRK) {
		if (!l->brk_seen)
			l->brk_base = ev->addr;
		l->brk_seen = 1;
		l->brk_growth = ev->addr > l->brk_base ? ev->addr - l->brk_base : 0;
	}
}

static void oracle__gone(struct oracle *o, const struct event *ev)
{
	struct o_life *l = oracle__find_life(o, ev->pid);

	if (!l || l->gone == 1)
		return;
	if (ev->flags == 1) {
		l->gone = 2;
		return;
	}
	l->exit_status = ev->aux ? ev->aux : l->exit_status;
	oracle__exit(o, l);
}

static void oracle__oom(struct oracle *o, const struct event *ev, const struct o_truth *truth)
{
	struct o_dev *d = oracle__dev(o, ev->dev);

	if (!d || oracle__life(o, ev->pid)->gone == 1)
		return;
	d->ooms++;
	d->oom_last = ev->size;
	o->lost[MT_LOSS_FRAME] += (uint64_t)truth->lost;
}

void oracle__handle(struct oracle *o, const struct event *ev, const struct o_truth *truth)
{
	struct o_life *l;

	if (!o->started) {
		o->started = 1;
		o->start = o->now = ev->ts_ns;
	}
	for (int i = 0; i < 256; i++)
		if (ev->ts_ns > o->now)
			o->devs[i].byte_ns +=
				(unsigned __int128)o->devs[i].live * (ev->ts_ns - o->now);
	o->now = ev->ts_ns > o->now ? ev->ts_ns : o->now;
	o->events[ev->kind]++;
	switch (ev->kind) {
	case MT_EV_ALLOC:
		oracle__alloc(o, ev, truth);
		break;
	case MT_EV_FREE:
		oracle__free(o, ev);
		break;
	case MT_EV_OOM:
		oracle__oom(o, ev, truth);
		break;
	case MT_EV_OP:
	case MT_EV_OP_BEGIN:
		oracle__count(o, ev, 0, 0);
		break;
	case MT_EV_NODE:
		oracle__count(o, ev, 1, 1);
		break;
	case MT_EV_REGION_BEGIN:
		oracle__count(o, ev, 0, 1);
		break;
	case MT_EV_REGION_END:
		oracle__life(o, ev->pid);
		break;
	case MT_EV_STEP:
		o->steps++;
		break;
	case MT_EV_EXIT:
		l = oracle__find_life(o, ev->pid);
		if (l) {
			l->exit_status = (uint32_t)ev->addr;
			l->rss_peak = ev->size > l->rss_peak ? ev->size : l->rss_peak;
		}
		break;
	case EV_PROC:
		oracle__proc(o, ev);
		break;
	case EV_GONE:
		oracle__gone(o, ev);
		break;
	case EV_CPU:
	case EV_LABEL:
	case EV_COMM:
	case MT_EV_RSS:
	case MT_EV_MMAP:
	case MT_EV_MUNMAP:
	case MT_EV_BRK:
		oracle__living(o, ev);
		break;
	default:
		/* the known ones change nothing that is compared here; three end where records are decoded */
		o->lost[MT_LOSS_DECODE] += ev->kind == MT_EV_NAME || ev->kind == MT_EV_ALLOC_AT || ev->kind == MT_EV_PLACE ||
					   !strcmp(event_kind_name(ev->kind), "?");
	}
}
