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

#define ALL_PAGES ((1u << PIECE / PAGE) - 1)

struct slot {
	uint64_t piece; /* its number; 0: none (nothing can be mapped there) */
	uint32_t look;
	/* bit: that page of it */
	uint8_t read;	 /* in this look */
	uint8_t there;	 /* of those */
	uint8_t touched; /* asked for in this look: the next one reads them at once */
};

struct py_snap {
	struct py_mem mem;
	uint32_t look;
	uint64_t bytes_read;
	struct slot slots[SETS][WAYS];
	uint8_t turn[SETS]; /* which way is taken next */
	struct slot *last;  /* used last: most of what is asked for lies together */
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

static uint8_t *data_of(const struct py_snap *s, const struct slot *slot)
{
	return s->data + (size_t)(slot - &s->slots[0][0]) * PIECE;
}

static void read_page(struct py_snap *s, struct slot *slot, unsigned page)
{
	uint64_t addr = (slot->piece << PIECE_BITS) + (uint64_t)page * PAGE;

	s->bytes_read += PAGE;
	slot->read |= 1u << page;
	if (!py_mem__read(&s->mem, addr, data_of(s, slot) + (size_t)page * PAGE, PAGE))
		slot->there |= 1u << page;
}

/* The pages between the first and the last one that are wanted, at once; one by one where some are not mapped. */
static void read_piece(struct py_snap *s, uint64_t piece, struct slot *slot, unsigned wanted)
{
	unsigned first = (unsigned)__builtin_ctz(wanted), last = 31 - (unsigned)__builtin_clz(wanted);
	unsigned range = (2u << last) - (1u << first);
	uint64_t off = (uint64_t)first * PAGE, len = (uint64_t)(last - first + 1) * PAGE;

	*slot = (struct slot){ .piece = piece, .look = s->look };
	if (!py_mem__read(&s->mem, (piece << PIECE_BITS) + off, data_of(s, slot) + off, len)) {
		s->bytes_read += len;
		slot->read = slot->there = (uint8_t)range;
		return;
	}
	for (unsigned i = first; i <= last; i++)
		read_page(s, slot, i);
}

/* The slot that has the piece, having read what the look before needed of it, or all. */
static struct slot *find_piece(struct py_snap *s, uint64_t piece)
{
	struct slot *set = s->slots[set_of(piece)];
	unsigned way = 0;

	while (way < WAYS && set[way].piece != piece)
		way++;
	if (way < WAYS && set[way].look == s->look)
		return &set[way];
	if (way < WAYS && set[way].touched) {
		read_piece(s, piece, &set[way], set[way].touched);
		return &set[way];
	}
	if (way == WAYS)
		way = s->turn[set_of(piece)]++ % WAYS;
	read_piece(s, piece, &set[way], ALL_PAGES);
	return &set[way];
}

/* Where the bytes are, all of one piece; NULL: not all of them are there. */
static const uint8_t *find(struct py_snap *s, uint64_t addr, size_t len)
{
	uint64_t piece = addr >> PIECE_BITS;
	unsigned off = (unsigned)(addr % PIECE), first = off / PAGE, last = (off + (unsigned)len - 1) / PAGE;
	unsigned wanted = (2u << last) - (1u << first);
	struct slot *slot = s->last;

	if (!slot || slot->piece != piece || slot->look != s->look)
		slot = s->last = find_piece(s, piece);
	slot->touched |= wanted;
	for (unsigned i = first; i <= last && (slot->read & wanted) != wanted; i++)
		if (!(slot->read >> i & 1))
			read_page(s, slot, i);
	return (slot->there & wanted) == wanted ? data_of(s, slot) + off : NULL;
}

int py_snap__read(struct py_snap *s, uint64_t addr, void *buf, size_t len)
{
	uint8_t *to = buf;

	if (addr < PAGE || addr >= ADDR_MAX || len >= ADDR_MAX - addr)
		return -EFAULT;
	while (len) {
		size_t n = PIECE - addr % PIECE;
		const uint8_t *from;

		n = n < len ? n : len;
		from = find(s, addr, n);
		if (!from)
			return -EFAULT;
		memcpy(to, from, n);
		addr += n;
		to += n;
		len -= n;
	}
	return 0;
}

uint64_t py_snap__word(struct py_snap *s, uint64_t addr)
{
	const uint8_t *from;
	uint64_t v = 0;

	if ((addr & 7) || addr < PAGE || addr >= ADDR_MAX)
		return py_snap__read(s, addr, &v, sizeof(v)) ? 0 : v;
	from = find(s, addr, sizeof(v));
	if (from)
		memcpy(&v, from, sizeof(v));
	return v;
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
