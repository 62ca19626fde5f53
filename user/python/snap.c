/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/snap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PIECE_BITS 14
#define PIECE (1u << PIECE_BITS)
#define PAGE 4096u
#define SETS 1024u
#define WAYS 4u
#define SLOTS (SETS * WAYS)
#define ADDR_MAX (1ull << 47)

struct slot {
	uint64_t piece; /* its number; 0: none (nothing can be mapped there) */
	uint32_t look;
	uint32_t pages; /* bit: that page of it is there */
};

struct py_snap {
	struct py_mem mem;
	uint32_t look;
	uint64_t bytes_read;
	struct slot slots[SETS][WAYS];
	uint8_t turn[SETS]; /* which way is taken next */
	uint8_t *data;	    /* SLOTS pieces; touched as they are used */
};

struct py_snap *py_snap__new(const struct py_mem *mem)
{
	struct py_snap *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->mem = *mem;
	s->look = 1;
	s->data = mmap(NULL, (size_t)SLOTS * PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->data == MAP_FAILED) {
		free(s);
		return NULL;
	}
	return s;
}

void py_snap__free(struct py_snap *s)
{
	if (!s)
		return;
	munmap(s->data, (size_t)SLOTS * PIECE);
	free(s);
}

void py_snap__fresh(struct py_snap *s)
{
	s->look++;
}

void py_snap__give_back(struct py_snap *s)
{
	py_snap__fresh(s);
	(void)madvise(s->data, (size_t)SLOTS * PIECE, MADV_DONTNEED);
}

static unsigned set_of(uint64_t piece)
{
	return (unsigned)(piece ^ piece >> 10) % SETS;
}

void py_snap__forget(struct py_snap *s, uint64_t addr, size_t len)
{
	if (addr >= ADDR_MAX || len >= ADDR_MAX)
		return;
	for (uint64_t p = addr >> PIECE_BITS; p <= (addr + len) >> PIECE_BITS; p++)
		for (unsigned way = 0; way < WAYS; way++)
			if (s->slots[set_of(p)][way].piece == p)
				s->slots[set_of(p)][way].look = s->look - 1;
}

/* Whole, or page by page where some of it is not mapped. */
static void read_piece(struct py_snap *s, uint64_t piece, struct slot *slot, uint8_t *data)
{
	uint64_t addr = piece << PIECE_BITS;

	*slot = (struct slot){ piece, s->look, 0 };
	s->bytes_read += PIECE;
	if (!py_mem__read(&s->mem, addr, data, PIECE)) {
		slot->pages = (1u << PIECE / PAGE) - 1;
		return;
	}
	for (unsigned i = 0; i < PIECE / PAGE; i++)
		if (!py_mem__read(&s->mem, addr + (uint64_t)i * PAGE, data + (size_t)i * PAGE, PAGE))
			slot->pages |= 1u << i;
}

/* The way that has the piece, having read it if need be. */
static unsigned find_piece(struct py_snap *s, uint64_t piece, unsigned set)
{
	unsigned way = 0;

	while (way < WAYS && (s->slots[set][way].piece != piece || s->slots[set][way].look != s->look))
		way++;
	if (way == WAYS) {
		way = s->turn[set]++ % WAYS;
		read_piece(s, piece, &s->slots[set][way], s->data + (size_t)(set * WAYS + way) * PIECE);
	}
	return way;
}

static int read_within(struct py_snap *s, uint64_t addr, void *buf, size_t len)
{
	uint64_t piece = addr >> PIECE_BITS;
	unsigned set = set_of(piece), way = find_piece(s, piece, set), off = (unsigned)(addr % PIECE);

	for (unsigned page = off / PAGE; page <= (off + len - 1) / PAGE; page++)
		if (!(s->slots[set][way].pages >> page & 1))
			return -EFAULT;
	memcpy(buf, s->data + (size_t)(set * WAYS + way) * PIECE + off, len);
	return 0;
}

int py_snap__read(struct py_snap *s, uint64_t addr, void *buf, size_t len)
{
	uint8_t *to = buf;

	if (addr < PAGE || addr >= ADDR_MAX || len >= ADDR_MAX - addr)
		return -EFAULT;
	while (len) {
		size_t n = PIECE - addr % PIECE;

		n = n < len ? n : len;
		if (read_within(s, addr, to, n))
			return -EFAULT;
		addr += n;
		to += n;
		len -= n;
	}
	return 0;
}

uint64_t py_snap__word(struct py_snap *s, uint64_t addr)
{
	uint64_t v = 0;

	return py_snap__read(s, addr, &v, sizeof(v)) ? 0 : v;
}

uint32_t py_snap__int(struct py_snap *s, uint64_t addr)
{
	uint32_t v = 0;

	return py_snap__read(s, addr, &v, sizeof(v)) ? 0 : v;
}

uint64_t py_snap__ptr(struct py_snap *s, uint64_t addr)
{
	uint64_t v = py_snap__word(s, addr);

	return py_plausible(v) ? v : 0;
}

uint64_t py_snap__bytes_read(const struct py_snap *s)
{
	return s->bytes_read;
}
