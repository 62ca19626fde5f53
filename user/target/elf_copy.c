/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The bytes of an ELF file, in memory of our own.
 *
 * A process that reads a mapped file beyond its new end, after it was truncated, is ended by SIGBUS; and what was checked may
 * have changed when it is read again. So pieces are read with pread when they are first needed, and never again: what elf__at()
 * returned stays. After each read the file must still have the size and the time of its last change that it had when it was
 * opened: all pieces are of one state of it, or the file has failed, for good.
 *
 * The pieces are in a reservation as long as the file, so that a table is one stretch of memory; pages that nobody reads take
 * none. (A 434 MB libtorch_cpu.so of 2.13: 129 MB are read for a plan, 76 of them names of local symbols that are not kept.)
 *
 * Bounds, since anybody can write a file: on bytes that are read, and on processor time spent on it. A normal file needs a
 * tenth of them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "target/elf.h"
#include "target/elf_file.h"

#define PIECE_BITS  15
#define PIECE	    (1ull << PIECE_BITS)
#define POPULATE_MIN (256u << 10)
#define LEN_MAX	    (64ull << 30) /* of address space; the longest known are 3 GB */
#define STEPS_A_LOOK (1u << 14)	  /* between two checks of the clock: some 0.1 ms */

struct elf_copy {
	const uint8_t *data;
	uint8_t *room; /* NULL: all of it is there, and borrowed */
	size_t len;
	uint64_t *there; /* a bit per piece */
	int fd;
	struct elf_stamp stamp;
	uint64_t read_bytes, steps, cpu_ns; /* steps since the last check; cpu_ns: of this thread at the first one */
	int err; /* why it returns nothing more */
};

/* --- the file -------------------------------------------------------------------------------------- */

static struct elf_stamp stamp_of(const struct stat *st)
{
	return (struct elf_stamp){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec,
		.ctime_ns = (uint64_t)st->st_ctim.tv_sec * NS_PER_S + (uint64_t)st->st_ctim.tv_nsec,
	};
}

int elf_stamp__of(int fd, struct elf_stamp *ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	*ret = stamp_of(&st);
	return 0;
}

static int elf_copy__reserve(struct elf_copy *c)
{
	size_t pieces = (size_t)((c->len + PIECE - 1) >> PIECE_BITS);
	void *room;

	if (c->len > LEN_MAX)
		return -EFBIG;
	c->there = calloc(pieces / 64 + 1, sizeof(*c->there));
	if (!c->there)
		return -ENOMEM;
	if (!c->len)
		return 0;
	room = mmap(NULL, c->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return -ENOMEM;
	c->data = c->room = room;
	(void)madvise(room, c->len, MADV_NOHUGEPAGE); /* a function here and there must not take 2 MiB each */
	return 0;
}

int elf_copy__of_file(struct elf_copy **ret, int fd, size_t *ret_len)
{
	struct elf_copy *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	c->fd = fd;
	r = elf_stamp__of(fd, &c->stamp);
	c->len = (size_t)c->stamp.size;
	if (!r)
		r = elf_copy__reserve(c);
	if (r < 0) {
		elf_copy__free(c);
		return r;
	}
	*ret = c;
	*ret_len = c->len;
	return 0;
}

struct elf_copy *elf_copy__of_bytes(const void *data, size_t len)
{
	struct elf_copy *c = calloc(1, sizeof(*c));

	if (c)
		*c = (struct elf_copy){ .data = data, .len = len, .fd = -1 };
	return c;
}

void elf_copy__free(struct elf_copy *c)
{
	if (!c)
		return;
	if (c->room)
		munmap(c->room, c->len);
	if (c->fd >= 0)
		close(c->fd);
	free(c->there);
	free(c);
}

/* --- reading --------------------------------------------------------------------------------------- */

static int is_there(const struct elf_copy *c, uint64_t piece)
{
	return c->there[piece / 64] >> (piece % 64) & 1;
}

/* All of [off, off + len), from the file as it was opened. */
static int elf_copy__pread(struct elf_copy *c, uint64_t off, uint8_t *to, uint64_t len)
{
	struct elf_stamp now;
	int r;

	while (len) {
		ssize_t n = pread(c->fd, to, (size_t)len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -ESTALE; /* shorter than it was */
		off += (uint64_t)n;
		to += n;
		len -= (uint64_t)n;
	}
	r = elf_stamp__of(c->fd, &now);
	return r < 0 ? r : now.size != c->stamp.size || now.mtime_ns != c->stamp.mtime_ns ? -ESTALE : 0;
}

static int elf_copy__may_read(struct elf_copy *c, uint64_t len)
{
	c->read_bytes += len;
	return c->read_bytes > ELF_READ_MAX ? -EFBIG : 0;
}

/* Reads the missing ones of pieces first to last. */
static int elf_copy__load(struct elf_copy *c, uint64_t first, uint64_t last)
{
	while (first <= last && !c->err) {
		uint64_t end = first, off = first << PIECE_BITS, to;

		if (is_there(c, first)) {
			first++;
			continue;
		}
		while (end <= last && !is_there(c, end))
			end++;
		to = end << PIECE_BITS < c->len ? end << PIECE_BITS : c->len;
		c->err = elf_copy__may_read(c, to - off);
		if (!c->err && to - off >= POPULATE_MIN) /* saves a fault per page; a failure does not matter */
			(void)madvise(c->room + off, (size_t)(to - off), MADV_POPULATE_WRITE);
		if (!c->err)
			c->err = elf_copy__pread(c, off, c->room + off, to - off);
		for (; first < end && !c->err; first++)
			c->there[first / 64] |= 1ull << (first % 64);
	}
	return c->err;
}

const void *elf__at(const struct elf *e, uint64_t off, uint64_t len)
{
	struct elf_copy *c = e->copy;

	if (c->err || off > c->len || len > c->len - off)
		return NULL;
	if (c->room && len && elf_copy__load(c, off >> PIECE_BITS, (off + len - 1) >> PIECE_BITS))
		return NULL;
	return c->data ? c->data + off : NULL;
}

int elf__peek(const struct elf *e, uint64_t off, void *buf, size_t len)
{
	struct elf_copy *c = e->copy;

	if (c->err || off > c->len || len > c->len - off)
		return c->err ? c->err : -EINVAL;
	if (c->room && len)
		c->err = elf_copy__may_read(c, len);
	if (c->room && !c->err)
		c->err = elf_copy__pread(c, off, buf, len);
	else if (len)
		memcpy(buf, c->data + off, len);
	return c->err;
}

/* --- its share --------------------------------------------------------------------------------------- */

void elf__refuse(const struct elf *e, int why)
{
	if (!e->copy->err)
		e->copy->err = why;
}

int elf__spend(const struct elf *e, uint64_t steps)
{
	struct elf_copy *c = e->copy;
	uint64_t now;

	c->steps += steps;
	if (c->steps < STEPS_A_LOOK)
		return c->err;
	c->steps = 0;
	now = cpu_ns();
	if (!c->cpu_ns)
		c->cpu_ns = now;
	else if (now - c->cpu_ns > ELF_CPU_NS_MAX)
		elf__refuse(e, -ETIME);
	return c->err;
}

int elf__failed(const struct elf *e, const char **ret_why)
{
	const char *why;

	switch (e->copy->err) {
	case 0: return 0;
	case -ESTALE: why = "it was changed while it was read"; break;
	case -EFBIG: why = "more of it would have to be read than of any honest file"; break;
	case -ETIME: why = "going through it takes longer than through any honest file"; break;
	case -EOVERFLOW: why = "it has more symbols or notes than any honest file"; break;
	default: why = strerror(-e->copy->err);
	}
	if (ret_why)
		*ret_why = why;
	return e->copy->err;
}

uint64_t elf__read_bytes(const struct elf *e)
{
	return e->copy->read_bytes;
}

void elf__stamp(const struct elf *e, struct elf_stamp *ret)
{
	*ret = e->copy->stamp;
}
