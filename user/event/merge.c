/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A heap of files by the time of their next event. An event is made another one's: its time, its pids, the ids of its names
 * (event.h says which fields of a kind hold which), its stacks; what counts for all processes together is added up.
 */
#include "event/merge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/names.h"
#include "event/merge_scan.h"
#include "event/recording.h"

#define CLOCK_APART_MAX (100ll * 365 * 86400 * 1000000000) /* no clock is that wrong: the file is */
#define PAIRS_MAX 16 /* files that steps are compared with in vain */
#define PID_BITS ((1u << EV_MACHINE_SHIFT) - 1)
#define AUX_MAX 256 /* of COST and LOSS */
#define REGION_BITS 0xfffffu /* of EV_WAS's aux */

/* What a file last said of a counter that goes on. */
struct counters {
	uint64_t cost_hits[AUX_MAX], cost_ns[AUX_MAX], lost[AUX_MAX];
	uint64_t self_rss, self_cpu_ns, oom_kills;
	bool has_oom_kills;
};

struct source {
	struct merge_scan scan;
	struct rec_reader *reader;
	size_t clock; /* the first file that has the same one */
	uint64_t shift_ns;
	const struct event *evs;
	size_t cnt, at;
	uint64_t next_ns; /* of evs[at], shifted */
	uint32_t *names, *stacks; /* this file's ids → those of what is written */
	size_t names_cnt, stacks_cnt, stacks_cap;
	uint64_t *fired; /* by id of what is written */
	size_t fired_cnt;
	struct counters said;
};

struct stack_slot {
	uint32_t parent, name, file, line, number; /* number 0: free */
	uint8_t kind;
};

#define STACK_SLOTS (2 * EV_STACKS_MAX)

struct merge {
	struct source *src;
	size_t cnt;
	size_t *heap, heap_cnt; /* of indices */
	struct names *names;
	struct rec_writer *out;
	struct merge_machine *machines; /* .global only of use */
	uint32_t machines_cnt;
	struct counters sum;
	uint64_t *fired;
	size_t fired_cnt;
	struct stack_slot *stacks; /* made with the first stack */
	uint32_t stacks_cnt;
	uint64_t now_ns;
	struct err *err;
	struct merge_info *info;
};

/* --- clocks ------------------------------------------------------------------------------------------------ */

/* One boot, one clock. A merged file's clock is its own. */
static bool same_clock(const struct merge_scan *a, const struct merge_scan *b)
{
	return !a->is_merged && !b->is_merged && a->machines[0].boot && a->machines[0].boot == b->machines[0].boot;
}

static int64_t clocks_apart(const struct merge_scan *a, const struct merge_scan *b)
{
	return (int64_t)((uint64_t)b->epoch_off_ns - (uint64_t)a->epoch_off_ns);
}

/* The earlier file whose clock this one shares, or itself. */
static size_t clock_of(const struct merge *m, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (same_clock(&m->src[k].scan, &m->src[i].scan))
			return k;
	return i;
}

/* File b is of the clock that began with file i, file a of the first clock. */
static bool align_pair(const struct merge *m, size_t i, size_t a, size_t b, struct merge_file_info *f)
{
	const struct merge_scan *sa = &m->src[a].scan, *sb = &m->src[b].scan;
	int64_t ahead;
	size_t steps = merge_scan__compare(sa, sb, &ahead, &f->spread_ns);

	if (!steps)
		return false;
	/* each memtrace reads the offset anew: what counts is that of the clock's first file */
	f->clock_ns = ahead - clocks_apart(&m->src[i].scan, sb) + clocks_apart(&m->src[0].scan, sa);
	f->steps_common = steps;
	f->how = MERGE_BY_STEPS;
	return true;
}

/* Any two files of the two clocks will do; those without steps are quick. */
static void align_by_steps(const struct merge *m, size_t i, struct merge_file_info *f)
{
	for (size_t b = i; b < m->cnt; b++) {
		if (!m->src[b].scan.steps_cnt || m->src[b].clock != i)
			continue;
		for (size_t a = 0, tries = 0; a < m->cnt && tries < PAIRS_MAX; a++) {
			if (!m->src[a].scan.steps_cnt || m->src[a].clock)
				continue;
			if (align_pair(m, i, a, b, f))
				return;
			tries++;
		}
	}
}

static void align_file(const struct merge *m, size_t i, enum merge_align align)
{
	struct merge_file_info *f = &m->info->files[i];
	size_t same = m->src[i].clock;

	f->how = i ? MERGE_BY_CLOCK : MERGE_FIRST;
	if (same < i) {
		/* the monotonic clock is one; what the two recordings think of the wall clock is not */
		f->how = MERGE_SAME_BOOT;
		f->clock_ns = m->info->files[same].clock_ns + clocks_apart(&m->src[same].scan, &m->src[i].scan);
	} else if (i && align == MERGE_ALIGN_STEPS) {
		align_by_steps(m, i, f);
	}
}

/* All times become those of one clock, the one that began earliest, so that nothing lies before 0. */
static int align_all(struct merge *m, enum merge_align align, int64_t *ret_off)
{
	int64_t least = 0; /* against the first file's */

	for (size_t i = 0; i < m->cnt; i++)
		m->src[i].clock = clock_of(m, i);
	for (size_t i = 0; i < m->cnt; i++) {
		int64_t apart = clocks_apart(&m->src[0].scan, &m->src[i].scan), off;

		if (apart > CLOCK_APART_MAX || apart < -CLOCK_APART_MAX) {
			err_set(m->err, -ERANGE, "the clocks of %s and %s are more than 100 years apart",
				m->info->files[0].path, m->info->files[i].path);
			return err_hint(m->err, "one of them is damaged; leave it out");
		}
		align_file(m, i, align);
		off = apart - m->info->files[i].clock_ns;
		least = off < least ? off : least;
	}
	for (size_t i = 0; i < m->cnt; i++)
		m->src[i].shift_ns = (uint64_t)(clocks_apart(&m->src[0].scan, &m->src[i].scan) -
						m->info->files[i].clock_ns - least);
	*ret_off = (int64_t)((uint64_t)m->src[0].scan.epoch_off_ns + (uint64_t)least);
	return 0;
}

/* --- machines ---------------------------------------------------------------------------------------------- */

static int number_machine(struct merge *m, struct merge_machine *mine)
{
	struct merge_machine *all;

	for (uint32_t i = 0; i < m->machines_cnt && mine->boot; i++)
		if (m->machines[i].boot == mine->boot) {
			mine->global = i;
			return 0;
		}
	if (m->machines_cnt == EV_MACHINES_MAX)
		return err_set(m->err, -ENOSPC, "more than %u machines", EV_MACHINES_MAX);
	all = reallocarray(m->machines, m->machines_cnt + 1, sizeof(*all));
	if (!all)
		return err_set(m->err, -ENOMEM, "out of memory");
	m->machines = all;
	mine->global = m->machines_cnt;
	all[m->machines_cnt++] = *mine;
	return 0;
}

static int number_machines(struct merge *m)
{
	int r = 0;

	for (size_t i = 0; i < m->cnt; i++) {
		for (size_t k = 0; k < m->src[i].scan.machines_cnt && !r; k++)
			r = number_machine(m, &m->src[i].scan.machines[k]);
		m->info->files[i].machine = m->src[i].scan.machines[0].global;
	}
	m->info->machines_cnt = m->machines_cnt;
	return r;
}

static uint32_t pid_of(const struct source *s, uint32_t pid)
{
	const struct merge_machine *mine = &s->scan.machines[0];

	if (!pid)
		return 0;
	for (size_t i = 0; i < s->scan.machines_cnt; i++)
		if (s->scan.machines[i].local == pid >> EV_MACHINE_SHIFT)
			mine = &s->scan.machines[i];
	return (pid & PID_BITS) | mine->global << EV_MACHINE_SHIFT;
}

/* --- names and stacks ---------------------------------------------------------------------------------------- */

static int name_of(struct merge *m, struct source *s, uint32_t id, uint32_t *ret)
{
	const struct names *from = rec_reader__names(s->reader);

	*ret = 0;
	if (!id || id > names__last(from))
		return 0;
	if (id >= s->names_cnt) {
		size_t cnt = (size_t)names__last(from) + 1024;
		uint32_t *v = reallocarray(s->names, cnt, sizeof(*v));

		if (!v)
			return -ENOMEM;
		memset(v + s->names_cnt, 0, (cnt - s->names_cnt) * sizeof(*v));
		s->names = v;
		s->names_cnt = cnt;
	}
	if (!s->names[id])
		s->names[id] = names__add_len(m->names, names__get(from, (name_id){ id }), names__len(from, (name_id){ id })).v;
	*ret = s->names[id];
	return 0;
}

static uint32_t stack_of(const struct source *s, uint64_t number)
{
	return number && number <= s->stacks_cnt ? s->stacks[number - 1] : 0;
}

static int stacks_add(struct source *s, uint32_t number)
{
	if (s->stacks_cnt == s->stacks_cap) {
		size_t cap = s->stacks_cap ? 2 * s->stacks_cap : 1024;
		uint32_t *v = reallocarray(s->stacks, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->stacks = v;
		s->stacks_cap = cap;
	}
	s->stacks[s->stacks_cnt++] = number;
	return 0;
}

/* The same frame under the same callers is one node, in whatever file. 1: it is new and *ev is its record; 0: known. */
static int merge_stack(struct merge *m, struct source *s, struct event *ev)
{
	struct stack_slot key = { .parent = stack_of(s, ev->size), .name = ev->name.v, .file = (uint32_t)ev->addr,
				  .line = ev->aux, .kind = ev->flags };
	uint32_t at;

	if (ev->seq != s->stacks_cnt + 1)
		return 0; /* told again, or odd: the model would not take it either */
	if (!m->stacks) {
		m->stacks = calloc(STACK_SLOTS, sizeof(*m->stacks));
		if (!m->stacks)
			return -ENOMEM;
	}
	at = (key.parent * 2654435761u ^ key.name * 40503u ^ key.file * 2246822519u ^ key.line * 3266489917u) % STACK_SLOTS;
	for (; m->stacks[at].number; at = (at + 1) % STACK_SLOTS) {
		const struct stack_slot *o = &m->stacks[at];

		if (o->parent == key.parent && o->name == key.name && o->file == key.file && o->line == key.line &&
		    o->kind == key.kind)
			return stacks_add(s, o->number);
	}
	if (m->stacks_cnt == EV_STACKS_MAX) {
		m->sum.lost[MT_LOSS_STACKS]++;
		return stacks_add(s, 0);
	}
	key.number = ++m->stacks_cnt;
	m->stacks[at] = key;
	ev->seq = key.number;
	ev->size = key.parent;
	return stacks_add(s, key.number) < 0 ? -ENOMEM : 1;
}

/* --- counters ------------------------------------------------------------------------------------------------ */

/* From what it said before to what it says now; a counter that fell began anew. */
static uint64_t more(uint64_t *said, uint64_t now, bool is_base)
{
	uint64_t d = is_base || now < *said ? 0 : now - *said;

	*said = now;
	return d;
}

static int count_fired(struct merge *m, struct source *s, struct event *ev)
{
	size_t need = (size_t)ev->name.v + 1, cnt = need + 1024;
	uint64_t **lists[] = { &m->fired, &s->fired };
	size_t *lens[] = { &m->fired_cnt, &s->fired_cnt };

	for (size_t l = 0; l < 2; l++) {
		uint64_t *v;

		if (*lens[l] >= need)
			continue;
		v = reallocarray(*lists[l], cnt, sizeof(*v));
		if (!v)
			return -ENOMEM;
		memset(v + *lens[l], 0, (cnt - *lens[l]) * sizeof(*v));
		*lists[l] = v;
		*lens[l] = cnt;
	}
	m->fired[ev->name.v] += more(&s->fired[ev->name.v], ev->size, ev->flags == EV_F_BASE);
	ev->size = m->fired[ev->name.v];
	return 1;
}

/* 1: *ev is what all files together say; 0: nothing to say. */
static int count(struct merge *m, struct source *s, struct event *ev)
{
	bool is_base = ev->flags == EV_F_BASE;
	struct counters *sum = &m->sum, *said = &s->said;

	switch (ev->kind) {
	case EV_COST:
		if (ev->aux >= AUX_MAX)
			return 0;
		ev->addr = sum->cost_hits[ev->aux] += more(&said->cost_hits[ev->aux], ev->addr, is_base);
		ev->size = sum->cost_ns[ev->aux] += more(&said->cost_ns[ev->aux], ev->size, is_base);
		break;
	case EV_LOSS:
		if (ev->aux >= AUX_MAX)
			return 0;
		ev->size = sum->lost[ev->aux] += more(&said->lost[ev->aux], ev->size, false);
		return 1;
	case EV_SELF:
		sum->self_rss += ev->addr - said->self_rss;
		said->self_rss = ev->addr;
		ev->addr = sum->self_rss;
		ev->size = sum->self_cpu_ns += more(&said->self_cpu_ns, ev->size, is_base);
		break;
	case EV_OOM_KILL:
		ev->size = sum->oom_kills += more(&said->oom_kills, ev->size, !said->has_oom_kills);
		said->has_oom_kills = true;
		return 1;
	default:
		return count_fired(m, s, ev);
	}
	ev->flags = 0;
	return 1;
}

/* --- one event ---------------------------------------------------------------------------------------------------- */

/* Fields that hold ids of names beside `name`. */
static int translate_names(struct merge *m, struct source *s, struct event *ev)
{
	uint32_t id;
	int r = name_of(m, s, ev->name.v, &ev->name.v);

	switch (ev->kind) {
	case EV_PROC:
	case EV_STACK:
		r = r ? r : name_of(m, s, (uint32_t)ev->addr, &id);
		ev->addr = r ? 0 : id;
		break;
	case EV_TENSOR:
		r = r ? r : name_of(m, s, ev->tid, &ev->tid);
		r = r ? r : name_of(m, s, ev->aux, &ev->aux);
		r = r ? r : name_of(m, s, ev->seq, &ev->seq);
		break;
	case EV_MODULE:
		r = r ? r : name_of(m, s, ev->tid, &ev->tid);
		r = r ? r : name_of(m, s, ev->seq, &ev->seq);
		break;
	case EV_WAS:
		r = r ? r : name_of(m, s, ev->aux & REGION_BITS, &id);
		ev->aux = r ? 0 : (ev->aux & ~REGION_BITS) | (id & REGION_BITS);
		break;
	default:
		break;
	}
	return r;
}

/* 1: write it; 0: do not; -ENOMEM. */
static int translate(struct merge *m, struct source *s, struct event *ev)
{
	int r;

	ev->ts_ns = s->next_ns;
	ev->pid = pid_of(s, ev->pid);
	if (ev->kind != EV_TENSOR && ev->kind != EV_MODULE) /* theirs is a name */
		ev->tid = pid_of(s, ev->tid);
	r = translate_names(m, s, ev);
	if (r < 0)
		return r;
	switch (ev->kind) {
	case EV_BEGIN:
	case EV_END:
	case EV_MACHINE:
		return 0;
	case EV_PROC:
		ev->aux = pid_of(s, ev->aux);
		return 1;
	case MT_EV_OOM_VICTIM:
		ev->addr = pid_of(s, (uint32_t)ev->addr);
		return 1;
	case EV_NVML: /* a device's own numbers: those of several machines would take turns */
		return ev->pid || m->machines_cnt == 1;
	case EV_STACK:
		return merge_stack(m, s, ev);
	case EV_STACK_AT:
		ev->size = stack_of(s, ev->size);
		return ev->size != 0;
	case EV_COST:
	case EV_LOSS:
	case EV_SELF:
	case EV_OOM_KILL:
	case EV_FIRED:
		return count(m, s, ev);
	default:
		return 1;
	}
}

static int put(struct merge *m, const struct event *ev)
{
	m->now_ns = ev->ts_ns;
	return rec_writer__add(m->out, ev, m->err);
}

/* --- files by time -------------------------------------------------------------------------------------------- */

/* The next event of a file is at evs[at]: 1; its end: 0. */
static int source__next(struct source *s, struct err *err)
{
	while (s->at == s->cnt) {
		int r = rec_reader__next(s->reader, &s->evs, &s->cnt, err);

		s->at = 0;
		if (r <= 0) {
			s->cnt = 0;
			return r;
		}
	}
	if (__builtin_add_overflow(s->evs[s->at].ts_ns, s->shift_ns, &s->next_ns))
		s->next_ns = UINT64_MAX;
	return 1;
}

static bool comes_before(const struct merge *m, size_t a, size_t b)
{
	uint64_t ta = m->src[a].next_ns, tb = m->src[b].next_ns;

	return ta != tb ? ta < tb : a < b;
}

static void swap(size_t *a, size_t *b)
{
	size_t t = *a;

	*a = *b;
	*b = t;
}

static void heap_down(struct merge *m, size_t at)
{
	for (;;) {
		size_t kid = 2 * at + 1;

		if (kid + 1 < m->heap_cnt && comes_before(m, m->heap[kid + 1], m->heap[kid]))
			kid++;
		if (kid >= m->heap_cnt || !comes_before(m, m->heap[kid], m->heap[at]))
			return;
		swap(&m->heap[at], &m->heap[kid]);
		at = kid;
	}
}

static int open_sources(struct merge *m)
{
	int r = 0;

	for (size_t i = 0; i < m->cnt; i++) {
		r = rec_reader__open(&m->src[i].reader, m->info->files[i].path, m->err);
		if (!r)
			r = source__next(&m->src[i], m->err);
		if (r < 0)
			return r;
		if (r)
			m->heap[m->heap_cnt++] = i;
	}
	for (size_t i = m->heap_cnt; i-- > 0;)
		heap_down(m, i);
	return 0;
}

static int merge_events(struct merge *m)
{
	while (m->heap_cnt) {
		struct source *s = &m->src[m->heap[0]];
		struct event ev = s->evs[s->at++];
		int r = translate(m, s, &ev);

		if (r < 0)
			return err_set(m->err, r, "out of memory");
		if (r) {
			r = put(m, &ev);
			m->info->events++;
		}
		if (r >= 0)
			r = source__next(s, m->err);
		if (r < 0)
			return r;
		if (!r)
			m->heap[0] = m->heap[--m->heap_cnt];
		heap_down(m, 0);
	}
	return 0;
}

/* --- begin and end ----------------------------------------------------------------------------------------------- */

static void note_text(char *buf, size_t size, const struct merge_file_info *f)
{
	static const char *const how[] = { [MERGE_FIRST] = "its clock is the one that is shown",
					   [MERGE_SAME_BOOT] = "one boot and one clock with an earlier file",
					   [MERGE_BY_STEPS] = "", [MERGE_BY_CLOCK] = "by its wall clock" };
	const char *name = strrchr(f->path, '/') ? strrchr(f->path, '/') + 1 : f->path;
	size_t n = (size_t)snprintf(buf, size, "Merged: %.100s, machine %u, ", name, f->machine);

	if (f->how == MERGE_BY_STEPS)
		n += (size_t)snprintf(buf + n, size - n, "by %zu steps: its clock was %.6f s %s, they lie %.3f ms apart",
				      f->steps_common, (double)(f->clock_ns < 0 ? -f->clock_ns : f->clock_ns) / 1e9,
				      f->clock_ns < 0 ? "behind" : "ahead", (double)f->spread_ns / 1e6);
	else
		n += (size_t)snprintf(buf + n, size - n, "%s", how[f->how]);
	if (f->cut_bytes)
		snprintf(buf + n, size - n, "; it was cut or damaged: %llu bytes of it could not be read",
			 (unsigned long long)f->cut_bytes);
	else if (!f->ended)
		snprintf(buf + n, size - n, "; its end was not seen");
}

static int put_head(struct merge *m, int64_t off)
{
	struct source *first = &m->src[0];
	struct event begin = first->evs[0];
	char text[400];
	int r;

	/* a file that has a beginning may still have something before it */
	if (begin.kind != EV_BEGIN)
		begin = (struct event){ .kind = EV_BEGIN };
	r = translate_names(m, first, &begin);
	begin.pid = pid_of(first, begin.pid);
	begin.tid = begin.pid;
	begin.addr = (uint64_t)off;
	begin.ts_ns = m->src[m->heap[0]].next_ns;
	r = r ? err_set(m->err, r, "out of memory") : put(m, &begin);
	for (uint32_t i = 0; i < m->machines_cnt && !r; i++)
		r = put(m, &(struct event){ .kind = EV_MACHINE, .ts_ns = begin.ts_ns, .aux = i, .flags = 1,
					    .addr = m->machines[i].boot, .name = names__add(m->names, m->machines[i].host) });
	for (size_t i = 0; i < m->cnt && !r; i++) {
		note_text(text, sizeof(text), &m->info->files[i]);
		r = put(m, &(struct event){ .kind = EV_NOTE, .ts_ns = begin.ts_ns, .name = names__add(m->names, text) });
	}
	return r;
}

static int put_end(struct merge *m)
{
	uint32_t reason = m->src[0].scan.end_reason;
	uint64_t dropped = 0;
	int r = 0;

	for (size_t i = 0; i < m->cnt; i++) {
		const struct source *s = &m->src[i];
		uint64_t said = s->said.lost[MT_LOSS_RECORDING];

		dropped += rec_reader__dropped(s->reader) > said ? rec_reader__dropped(s->reader) - said : 0;
		if (s->scan.end_reason == EV_END_FAILED)
			reason = EV_END_FAILED;
	}
	m->sum.lost[MT_LOSS_RECORDING] += dropped;
	for (unsigned i = 1; i < AUX_MAX && !r; i++)
		if (m->sum.lost[i])
			r = put(m, &(struct event){ .kind = EV_LOSS, .ts_ns = m->now_ns, .aux = i, .size = m->sum.lost[i] });
	for (size_t i = 0; i < m->cnt; i++)
		if (!m->info->files[i].ended)
			return r; /* what is cut in part is cut */
	return r ? r : put(m, &(struct event){ .kind = EV_END, .ts_ns = m->now_ns, .aux = reason });
}

static void find_missing(struct merge *m)
{
	struct merge_info *info = m->info;
	int64_t world = -1;

	for (size_t i = 0; i < m->cnt; i++)
		world = m->src[i].scan.world > world ? m->src[i].scan.world : world;
	info->world = world;
	for (uint32_t rank = 0; rank < MERGE_RANKS_MAX; rank++) {
		bool here = false;

		for (size_t i = 0; i < m->cnt && !here; i++)
			here = m->src[i].scan.ranks[rank / 8] & 1u << rank % 8;
		info->ranks_cnt += here;
		if (here || rank >= world)
			continue;
		if (info->missing_cnt < sizeof(info->missing) / sizeof(info->missing[0]))
			info->missing[info->missing_cnt++] = rank;
		info->missing_total++;
	}
}

static int scan_all(struct merge *m, const char *const *paths)
{
	int r = 0;

	for (size_t i = 0; i < m->cnt && !r; i++) {
		struct merge_file_info *f = &m->info->files[i];

		f->path = paths[i];
		m->info->files_cnt++;
		r = merge_scan__read(&m->src[i].scan, paths[i], m->err);
		f->events = m->src[i].scan.events;
		f->cut_bytes = m->src[i].scan.cut_bytes;
		f->ended = m->src[i].scan.ended && !f->cut_bytes;
	}
	return r;
}

/* The writer begins a file anew with its first frame: an input would be gone before it is read. */
static int refuse_inputs(const char *const *paths, size_t cnt, const char *out, struct err *err)
{
	struct stat a, b;

	for (size_t i = 0; i < cnt && !stat(out, &a); i++)
		if (!stat(paths[i], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
			err_set(err, -EINVAL, "%s is one of the files to be merged", out);
			return err_hint(err, "give what is written another name with -o");
		}
	for (size_t i = 0; i < cnt; i++)
		for (size_t k = 0; k < i; k++)
			if (!stat(paths[i], &a) && !stat(paths[k], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
				err_set(err, -EINVAL, "%s was given twice", paths[i]);
				return err_hint(err, "its memory would be counted twice");
			}
	return 0;
}

static int merge_run(struct merge *m, const char *const *paths, const char *out, enum merge_align align)
{
	int64_t off = 0;
	int r = scan_all(m, paths);

	if (!r)
		r = number_machines(m);
	if (!r)
		r = align_all(m, align, &off);
	if (!r)
		r = open_sources(m);
	if (!r)
		r = rec_writer__open(&m->out, out, m->names, m->err);
	if (!r)
		r = put_head(m, off);
	if (!r)
		r = merge_events(m);
	if (!r)
		r = put_end(m);
	if (!r)
		find_missing(m);
	return r;
}

static void merge_done(struct merge *m)
{
	for (size_t i = 0; m->src && i < m->cnt; i++) {
		merge_scan__done(&m->src[i].scan);
		rec_reader__free(m->src[i].reader);
		free(m->src[i].names);
		free(m->src[i].stacks);
		free(m->src[i].fired);
	}
	free(m->src);
	free(m->heap);
	free(m->machines);
	free(m->fired);
	free(m->stacks);
	names__free(m->names);
}

int merge_files(const char *const *paths, size_t cnt, const char *out, enum merge_align align, struct merge_info *ret,
		struct err *err)
{
	struct merge m = { .cnt = cnt, .info = ret, .err = err };
	int r;

	*ret = (struct merge_info){ .world = -1 };
	if (cnt > MERGE_FILES_MAX) {
		err_set(err, -E2BIG, "more than %u files", MERGE_FILES_MAX);
		return err_hint(err, "merge some, then what came of them");
	}
	r = refuse_inputs(paths, cnt, out, err);
	if (r < 0)
		return r;
	m.src = calloc(cnt, sizeof(*m.src));
	m.heap = calloc(cnt, sizeof(*m.heap));
	ret->files = calloc(cnt, sizeof(*ret->files));
	m.names = names__new();
	r = m.src && m.heap && ret->files && m.names ? 0 : err_set(err, -ENOMEM, "out of memory");
	if (!r)
		r = merge_run(&m, paths, out, align);
	if (r < 0)
		rec_writer__drop(m.out);
	else
		r = rec_writer__close(m.out, err);
	merge_done(&m);
	return r;
}

void merge_info__done(struct merge_info *info)
{
	free(info->files);
	*info = (struct merge_info){ 0 };
}
