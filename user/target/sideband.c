/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * perf's sideband, read from its rings directly.
 *
 * A software "dummy" event never counts anything, but its ring receives every MMAP2, FORK, COMM and EXIT record of its CPU.
 * libbpf's perf_buffer cannot be used: it is for BPF output events and gives neither these records nor attributes to request
 * them. Wake-up at every record: they are rare, and a library that has just been mapped should have its probes before it is
 * used much.
 *
 * The ring: the kernel writes data_head and never reads past it; we write data_tail. The load of data_head must come before the
 * loads of data (acquire), the store of data_tail after them (release). A record may wrap around the end, so each is copied out
 * first.
 *
 * An event ends with its CPU and does not come back with it, so rings are closed and opened as CPUs go and come, when the
 * caller checks them. Not noticed: one that goes and comes back between two checks.
 */
#include "target/sideband.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "target/door.h"

#define RECORD_BYTES_MAX 65536 /* a record's size is 16 bits */
#define RECORD_BYTES_USUAL 8192 /* usual sizes: a path of PATH_MAX and some fields */
#define ROUNDS_MAX 16

struct cpu_ring {
	int fd, cpu;
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	uint64_t mask;
	size_t map_len;
	uint64_t head, tail; /* of the present round of draining */
	uint64_t lost;	/* records, reported so far */
	uint64_t lost_in_records; /* by PERF_RECORD_LOST alone */
	uint64_t running_ns;	  /* of its event, at the last check */
};

/* What read(2) returns for an event; lost since 6.0. */
struct event_reported {
	uint64_t value, running_ns, lost;
};

struct sideband {
	int epoll_fd;
	struct cpu_ring *cpus;
	size_t cpus_cnt, cpus_cap;
	unsigned pages;
	int is_forks; /* only forks and exits, in rings of our own */
	uint8_t record[RECORD_BYTES_MAX] __attribute__((aligned(8)));
};

/* --- opening --------------------------------------------------------------------------------------- */

/* 1; 0: the CPU is offline; or -errno. */
static int sideband__add_cpu(struct sideband *s, int cpu)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct cpu_ring c = { .cpu = cpu, .map_len = (1 + s->pages) * page, .mask = s->pages * page - 1 };
	struct epoll_event ev = { .events = EPOLLIN };
	void *map;

	if (!array_has_room(s->cpus, s->cpus_cnt, s->cpus_cap, 64))
		return -ENOMEM;
	c.fd = s->is_forks ? sideband_event(cpu, 1) : door_sideband(cpu, c.map_len);
	if (c.fd < 0)
		return c.fd == -ENODEV ? 0 : c.fd;
	map = mmap(NULL, c.map_len, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, 0);
	if (map == MAP_FAILED || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, c.fd, &ev) < 0) {
		int r = -errno;

		if (map != MAP_FAILED)
			munmap(map, c.map_len);
		close(c.fd);
		return r;
	}
	c.page = map;
	c.data = (const uint8_t *)map + page;
	s->cpus[s->cpus_cnt++] = c;
	return 1;
}

static void cpu_ring__close(struct cpu_ring *c)
{
	munmap(c->page, c->map_len);
	close(c->fd);
}

/* Does "0-3,8" contain it? Text that the kernel would not write contains nothing. */
static int is_online(const char *list, int cpu)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		long first = strtol(list, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;

		if (cpu >= first && cpu <= last)
			return 1;
		list = *end == ',' ? end + 1 : "";
	}
	return 0;
}

/* A CPU that goes offline loses the event for good, even if it is back before the check: the event no longer runs. */
static int cpu_ring__is_dead(struct cpu_ring *c)
{
	struct event_reported is;
	uint64_t before = c->running_ns;

	if (read(c->fd, &is, sizeof(is)) < (ssize_t)offsetof(struct event_reported, lost))
		return 0;
	c->running_ns = is.running_ns;
	return is.running_ns == before;
}

static int has_ring(const struct sideband *s, int cpu)
{
	for (size_t i = 0; i < s->cpus_cnt; i++)
		if (s->cpus[i].cpu == cpu)
			return 1;
	return 0;
}

int sideband__set_cpus(struct sideband *s, const char *online)
{
	int cpus = get_nprocs_conf(), came = 0;

	for (size_t i = 0; i < s->cpus_cnt;) {
		if (is_online(online, s->cpus[i].cpu) && !cpu_ring__is_dead(&s->cpus[i])) {
			i++;
			continue;
		}
		cpu_ring__close(&s->cpus[i]);
		s->cpus[i] = s->cpus[--s->cpus_cnt];
	}
	for (int cpu = 0; cpu < cpus; cpu++) {
		int r = is_online(online, cpu) && !has_ring(s, cpu) ? sideband__add_cpu(s, cpu) : 0;

		if (r < 0)
			return r;
		came += r;
	}
	return came;
}

int sideband__look_at_cpus(struct sideband *s)
{
	char list[4096];
	int fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, list, sizeof(list) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return -ENOENT;
	list[n] = '\0';
	return sideband__set_cpus(s, list);
}

static int open_rings(struct sideband **ret, unsigned ring_pages_per_cpu, int is_forks, struct err *err)
{
	struct sideband *s;
	int cpus = get_nprocs_conf(), r = 0;

	if (!ring_pages_per_cpu || (ring_pages_per_cpu & (ring_pages_per_cpu - 1)) ||
	    ring_pages_per_cpu > 65536)
		return err_set(err, -EINVAL, "%u pages are no size for a ring: it must be a power of 2",
			       ring_pages_per_cpu);
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->pages = ring_pages_per_cpu;
	s->is_forks = is_forks;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0)
		r = -errno;
	for (int cpu = 0; r >= 0 && cpu < cpus; cpu++)
		r = sideband__add_cpu(s, cpu);
	if (r >= 0 && !s->cpus_cnt)
		r = -ENODEV;
	if (r < 0) {
		sideband__free(s);
		err_set(err, r, "following processes through perf events: %s", strerror(-r));
		if (r == -EACCES || r == -EPERM)
			err_hint(err, "run memtrace as root (sudo)");
		return r;
	}
	*ret = s;
	return 0;
}

int sideband__open(struct sideband **ret, unsigned ring_pages_per_cpu, struct err *err)
{
	return open_rings(ret, ring_pages_per_cpu, 0, err);
}

int sideband__open_forks(struct sideband **ret, unsigned ring_pages_per_cpu, struct err *err)
{
	return open_rings(ret, ring_pages_per_cpu, 1, err);
}

void sideband__free(struct sideband *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->cpus_cnt; i++)
		cpu_ring__close(&s->cpus[i]);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	free(s->cpus);
	free(s);
}

int sideband__fd(const struct sideband *s)
{
	return s->epoll_fd;
}

/* --- records ----------------------------------------------------------------------------------------- */

struct raw_mmap2 {
	struct perf_event_header hdr;
	uint32_t pid, tid;
	uint64_t addr, len, off;
	uint32_t major_nr, minor_nr;
	uint64_t ino, generation;
	uint32_t prot, flags;
	char path[];
};

struct raw_task {
	struct perf_event_header hdr;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
};

struct raw_comm {
	struct perf_event_header hdr;
	uint32_t pid, tid;
	char comm[];
};

struct raw_lost {
	struct perf_event_header hdr;
	uint64_t id, lost;
};

/* Text that ends before the time at the record's end. */
static const char *text_in(const void *rec, size_t len, const char *text)
{
	size_t at = (size_t)(text - (const char *)rec);

	return len >= at + 8 && memchr(text, '\0', len - 8 - at) ? text : "";
}

/* 1 = *ret is filled, 0 = nothing for us. The time of every record is its last 8 bytes. */
static int record_parse(const void *rec, size_t len, struct sb_record *ret)
{
	const struct perf_event_header *hdr = rec;
	const struct raw_mmap2 *m = rec;
	const struct raw_task *t = rec;
	const struct raw_comm *c = rec;
	const struct raw_lost *l = rec;
	struct sb_record r = { .text = "" };

	if (len < sizeof(*hdr) + 8)
		return 0;
	memcpy(&r.ts_ns, (const uint8_t *)rec + len - 8, 8);
	switch (hdr->type) {
	case PERF_RECORD_MMAP2:
		if (len < sizeof(*m) + 8)
			return 0;
		r.kind = SB_MMAP;
		r.pid = m->pid;
		r.tid = m->tid;
		r.addr = m->addr;
		r.len = m->len;
		r.off = m->off;
		r.dev = makedev(m->major_nr, m->minor_nr);
		r.ino = m->ino;
		r.text = text_in(rec, len, m->path);
		if (!r.ino)
			return 0; /* anonymous */
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		if (len < sizeof(*t) + 8)
			return 0;
		r.kind = hdr->type == PERF_RECORD_FORK ? SB_FORK : SB_EXIT;
		r.pid = t->pid;
		r.tid = t->tid;
		r.ppid = t->ppid;
		break;
	case PERF_RECORD_COMM:
		if (len < sizeof(*c) + 8)
			return 0;
		r.kind = hdr->misc & PERF_RECORD_MISC_COMM_EXEC ? SB_EXEC : SB_COMM;
		r.pid = c->pid;
		r.tid = c->tid;
		r.text = text_in(rec, len, c->comm);
		break;
	case PERF_RECORD_LOST:
		if (len < sizeof(*l) + 8)
			return 0;
		r.kind = SB_LOST;
		r.lost = l->lost;
		break;
	default: return 0;
	}
	*ret = r;
	return 1;
}

static void ring_copy(const struct cpu_ring *c, uint64_t at, void *to, size_t len)
{
	uint64_t from = at & c->mask, size = c->mask + 1;
	size_t first = len < size - from ? len : (size_t)(size - from);

	memcpy(to, c->data + from, first);
	memcpy((uint8_t *)to + first, c->data, len - first);
}

/* 1: a record waits that was made before `until`; *ret: its time. */
static int cpu_ring__peek(struct cpu_ring *c, uint64_t until, uint64_t *ret)
{
	struct perf_event_header hdr;

	if (c->head - c->tail < sizeof(hdr))
		return 0;
	ring_copy(c, c->tail, &hdr, sizeof(hdr));
	if (hdr.size < sizeof(hdr) + 8 || hdr.size > c->head - c->tail) {
		c->tail = c->head; /* impossible: start again at a valid place */
		return 0;
	}
	ring_copy(c, c->tail + hdr.size - 8, ret, 8);
	return *ret <= until;
}

static int sideband__take(struct sideband *s, struct cpu_ring *c, int (*fn)(void *ctx, const struct sb_record *rec), void *ctx,
			  int *cnt)
{
	struct perf_event_header hdr;
	struct sb_record rec;

	ring_copy(c, c->tail, &hdr, sizeof(hdr));
	ring_copy(c, c->tail, s->record, hdr.size);
	c->tail += hdr.size;
	if (!record_parse(s->record, hdr.size, &rec))
		return 0;
	if (rec.kind == SB_LOST) {
		c->lost_in_records += rec.lost;
		if (c->lost_in_records <= c->lost)
			return 0;
		rec.lost = c->lost_in_records - c->lost;
		c->lost = c->lost_in_records;
	}
	(*cnt)++;
	return fn(ctx, &rec);
}

/*
 * PERF_RECORD_LOST precedes the next record, which may never come on a quiet machine: for a ring that was found full the
 * kernel's own count is read (since 6.0).
 */
static int cpu_ring__tell_lost(struct cpu_ring *c, uint64_t now, int (*fn)(void *ctx, const struct sb_record *rec), void *ctx,
			       int *cnt)
{
	struct sb_record rec = { .kind = SB_LOST, .ts_ns = now, .text = "" };
	struct event_reported is;

	if (c->head - c->page->data_tail + RECORD_BYTES_USUAL <= c->mask + 1 ||
	    read(c->fd, &is, sizeof(is)) != sizeof(is) || is.lost <= c->lost)
		return 0;
	rec.lost = is.lost - c->lost;
	c->lost = is.lost;
	(*cnt)++;
	return fn(ctx, &rec);
}

/* Of all CPUs by time, up to now: consequences of a record are made later, so nothing before it is still to come. */
static int sideband__drain_round(struct sideband *s, int (*fn)(void *ctx, const struct sb_record *rec), void *ctx, int *cnt)
{
	uint64_t until, ns, first_ns;
	int r = 0;

	until = now_ns();
	for (size_t i = 0; i < s->cpus_cnt; i++) {
		s->cpus[i].head = __atomic_load_n(&s->cpus[i].page->data_head, __ATOMIC_ACQUIRE);
		s->cpus[i].tail = s->cpus[i].page->data_tail; /* written only by us */
	}
	while (r >= 0) {
		struct cpu_ring *first = NULL;

		for (size_t i = 0; i < s->cpus_cnt; i++)
			if (cpu_ring__peek(&s->cpus[i], until, &ns) && (!first || ns < first_ns)) {
				first = &s->cpus[i];
				first_ns = ns;
			}
		if (!first)
			break;
		r = sideband__take(s, first, fn, ctx, cnt);
	}
	for (size_t i = 0; i < s->cpus_cnt && r >= 0; i++)
		r = cpu_ring__tell_lost(&s->cpus[i], until, fn, ctx, cnt);
	for (size_t i = 0; i < s->cpus_cnt; i++)
		__atomic_store_n(&s->cpus[i].page->data_tail, s->cpus[i].tail, __ATOMIC_RELEASE);
	return r;
}

static int sideband__has_rest(const struct sideband *s)
{
	for (size_t i = 0; i < s->cpus_cnt; i++)
		if (s->cpus[i].tail != s->cpus[i].head)
			return 1;
	return 0;
}

/* The kernel wakes us only once for a record: one that was made since the round began is taken in the next. */
int sideband__drain(struct sideband *s, int (*fn)(void *ctx, const struct sb_record *rec), void *ctx)
{
	int cnt = 0, r, rounds = 0;

	do
		r = sideband__drain_round(s, fn, ctx, &cnt);
	while (r >= 0 && sideband__has_rest(s) && ++rounds < ROUNDS_MAX);
	return r < 0 ? r : cnt;
}
