/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "target/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "target/proc_io.h"
#include "target/proc_text.h"

#define KEPT_NS 1000000000u /* maps are read this often; a device that is mapped meanwhile is at addresses that were free */
#define REFUSED_NS 50000000u /* … and again if older than this, before a range is refused */

#define WINDOW 16u /* pages per read of pagemap */
#define RUNS 64u

struct addr_span {
	uint64_t start, end;
};

static int open_of(pid_t pid, const char *name)
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd >= 0 ? fd : errno == ENOENT ? -ESRCH : -errno;
}

/* The parts of a process's memory that are not read, ascending. */
static __thread struct closed {
	pid_t pid; /* 0: no process */
	uint64_t since_ns, above; /* above: the end of the last mapping */
	struct addr_span *v;
	size_t cnt, cap;
} closed;

static int closed__add(struct closed *c, uint64_t start, uint64_t end)
{
	if (c->cnt && c->v[c->cnt - 1].end == start) {
		c->v[c->cnt - 1].end = end;
		return 0;
	}
	if (!array_has_room(c->v, c->cnt, c->cap, 16))
		return -ENOMEM;
	c->v[c->cnt++] = (struct addr_span){ start, end };
	return 0;
}

static int begins_with(const struct maps_line *m, const char *word)
{
	size_t len = strlen(word);

	return m->path_len >= len && !memcmp(m->path, word, len);
}

static int is(const struct maps_line *m, const char *word)
{
	return m->path_len == strlen(word) && begins_with(m, word);
}

/* Of a driver, or of the kernel: most of these are shared, and no page of those is anonymous. */
static int is_device(const struct maps_line *m)
{
	if (begins_with(m, "/dev/"))
		return !begins_with(m, "/dev/shm/") && !begins_with(m, "/dev/hugepages/") && !is(m, "/dev/zero");
	return begins_with(m, "/sys/") || begins_with(m, "/proc/") || begins_with(m, "anon_inode:");
}

static int take(void *ctx, const struct maps_line *m)
{
	struct closed *c = ctx;
	int r = 0;

	if (is(m, "[stack]") && c->above < m->start)
		r = closed__add(c, c->above, m->start);
	if (!r && (m->is_closed || m->is_shared || is_device(m)))
		r = closed__add(c, m->start, m->end);
	c->above = m->end;
	return r;
}

static int closed__look(struct closed *c, pid_t pid)
{
	int fd = open_of(pid, "maps"), r;
	char *text;
	size_t len;

	c->pid = 0;
	c->cnt = 0;
	c->above = 0;
	if (fd < 0)
		return fd;
	r = proc_read_fd(fd, MAPS_BYTES_MAX, &text, &len);
	close(fd);
	c->since_ns = now_ns();
	if (r < 0)
		return r;
	r = maps_each(text, len, take, c, NULL);
	if (!r && len == MAPS_BYTES_MAX) /* the text was cut */
		r = closed__add(c, c->above, UINT64_MAX);
	free(text);
	c->pid = r ? 0 : pid;
	return r;
}

/* Only the first span that ends after the range's beginning can overlap it. */
static int closed__has(const struct closed *c, const struct iovec *range)
{
	uint64_t start = (uintptr_t)range->iov_base, end = start + range->iov_len;
	size_t low = 0, high = c->cnt;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (c->v[mid].end <= start)
			low = mid + 1;
		else
			high = mid;
	}
	return end < start || (low < c->cnt && c->v[low].start < end);
}

static int may_read(struct closed *c, pid_t pid, const struct iovec *range)
{
	int r;

	if (c->pid == pid && now_ns() - c->since_ns < KEPT_NS) {
		if (!closed__has(c, range))
			return 0;
		if (now_ns() - c->since_ns < REFUSED_NS)
			return -EFAULT;
	}
	r = closed__look(c, pid);
	return r ? r : closed__has(c, range) ? -EFAULT : 0;
}

/* --- one look --------------------------------------------------------------------------------------------- */

/* Descriptors of /proc/PID, and a window of pagemap's entries. */
struct look {
	pid_t pid;
	int mem, pagemap; /* -1: not opened yet */
	uint64_t window, entries[WINDOW];
	size_t known; /* entries */
	struct iovec here[RUNS], there[RUNS]; /* for process_vm_readv */
	size_t cnt;
	size_t bytes;
};

/* 0 if unknown: the kernel has no such file, or the process no longer has memory. */
static uint64_t look__entry(struct look *l, uint64_t page)
{
	if (l->pagemap < 0)
		return 0;
	if (page < l->window || page >= l->window + l->known) {
		ssize_t n;

		l->window = page & ~(uint64_t)(WINDOW - 1);
		n = pread(l->pagemap, l->entries, sizeof(l->entries), (off_t)(l->window * sizeof(*l->entries)));
		l->known = n > 0 ? (size_t)n / sizeof(*l->entries) : 0;
		if (page >= l->window + l->known)
			return 0;
	}
	return l->entries[page - l->window];
}

/* Pinning such a page might copy it. In swap it may be shared, too: then it is read back and copied. */
static int is_shared(uint64_t entry)
{
	return entry & PAGE_IS_THERE && !(entry & (PAGE_IS_FILES | PAGE_IS_OWN));
}

static int look__flush(struct look *l)
{
	ssize_t n = l->cnt ? process_vm_readv(l->pid, l->here, l->cnt, l->there, l->cnt, 0) : 0;
	int r = n == (ssize_t)l->bytes ? 0 : n < 0 ? -errno : -EFAULT;

	l->cnt = l->bytes = 0;
	return r;
}

static int look__pin(struct look *l, uint64_t addr, char *buf, size_t len)
{
	int r = l->cnt == RUNS ? look__flush(l) : 0;

	l->here[l->cnt] = (struct iovec){ buf, len };
	l->there[l->cnt++] = (struct iovec){ (void *)(uintptr_t)addr, len };
	l->bytes += len;
	return r;
}

/* EIO: nothing is mapped there. 0 bytes: the process no longer has memory. */
static int look__copy(struct look *l, uint64_t addr, char *buf, size_t len)
{
	struct iovec range = { (void *)(uintptr_t)addr, len };
	int r = may_read(&closed, l->pid, &range);

	if (!r && l->mem < 0)
		r = l->mem = open_of(l->pid, "mem");
	for (r = r < 0 ? r : 0; !r && len;) {
		ssize_t n = pread(l->mem, buf, len, (off_t)addr);

		if (n <= 0)
			return !n ? -ESRCH : errno == EIO ? -EFAULT : -errno;
		buf += n;
		addr += (uint64_t)n;
		len -= (size_t)n;
	}
	return r;
}

/* In runs of pages that are read in the same way. */
static int look__range(struct look *l, uint64_t addr, char *buf, size_t len)
{
	uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
	int r = addr > INT64_MAX || len > INT64_MAX - addr ? -EFAULT : 0; /* the kernel's addresses */

	while (!r && len) {
		uint64_t page = addr / size, end = page + 1;
		int shared = is_shared(look__entry(l, page));
		size_t run;

		while (end * size < addr + len && is_shared(look__entry(l, end)) == shared)
			end++;
		run = end * size - addr < len ? (size_t)(end * size - addr) : len;
		r = shared ? look__copy(l, addr, buf, run) : look__pin(l, addr, buf, run);
		addr += run;
		buf += run;
		len -= run;
	}
	return r;
}

int memory_read(pid_t pid, const struct iovec *ranges, size_t cnt, void *buf, size_t len)
{
	struct look l;
	char *at = buf;
	int r = 0;

	l.pid = pid;
	l.mem = -1;
	l.window = l.known = l.cnt = l.bytes = 0;
	l.pagemap = open_of(pid, "pagemap");
	if (l.pagemap < 0 && l.pagemap != -ESRCH)
		return l.pagemap;
	for (size_t i = 0; !r && i < cnt; i++) {
		size_t bytes = ranges[i].iov_len;

		r = bytes > len ? -EFAULT : look__range(&l, (uintptr_t)ranges[i].iov_base, at, bytes);
		at += bytes;
		len -= bytes;
	}
	r = r ? r : look__flush(&l);
	if (l.pagemap >= 0)
		close(l.pagemap);
	if (l.mem >= 0)
		close(l.mem);
	return r ? r : len ? -EFAULT : 0;
}

void memory_done(void)
{
	free(closed.v);
	closed = (struct closed){ 0 };
}
