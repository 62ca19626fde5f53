/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/snap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PIECE_BITS 14
#define PIECE (1u << PIECE_BITS)
#define PAGE 4096u
#define SETS 256u
#define WAYS 4u
#define SLOTS (SETS * WAYS)
#define ADDR_MAX (1ull << 47)

#define ALL_PAGES ((1u << PIECE / PAGE) - 1)
#define WORDS (PIECE / 8)
#define PAGE_WORDS (PAGE / 8)
#define TRACE_MAX 4000000u /* words and pages: 64 MB; a tensor has 28, with its part of modules and state */
#define BATCH_PAGES PY_RANGES_MAX /* that a trace reads at once: they are compared while still in the cache */

struct slot {
	uint64_t piece; /* its number; 0: none (nothing can be mapped there) */
	uint32_t look;
	/* bit: that page of it */
	uint8_t read;	 /* in this look */
	uint8_t there;	 /* of those */
	uint8_t touched; /* asked for in this look: the next one reads them at once */
	uint8_t needed;	 /* has words that the trace needs */
};

/* A trace's words of one page: words[first] up to the next page's. */
struct needed_page {
	uint64_t addr;
	uint32_t first;
};

struct needed_word {
	uint64_t value;
	uint16_t at;	/* in the page, in words */
	uint8_t what; /* enum py_word, bits */
};

/* A page that was read twice has two entries; if they differ, the trace never holds. */
struct trace {
	struct needed_page *pages; /* one more than there are, for its `first` */
	struct needed_word *words;
	size_t pages_cnt, pages_cap, words_cnt, words_cap;
	int is_on, is_whole;
	int err;
	uint8_t *buf; /* BATCH_PAGES */
};

struct py_snap {
	struct py_mem mem;
	uint32_t look;
	uint64_t bytes_read;
	struct slot slots[SETS][WAYS];
	uint8_t turn[SETS]; /* which way is taken next */
	struct slot *last;  /* used last: most requests lie close together */
	uint8_t *data;	    /* SLOTS pieces; touched as they are used */
	uint8_t (*needs)[WORDS]; /* of each slot: enum py_word of its words */
	struct trace trace;
};

static void *reserve(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct py_snap *py_snap__new(const struct py_mem *mem)
{
	struct py_snap *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->mem = *mem;
	s->look = 1;
	s->data = reserve((size_t)SLOTS * PIECE);
	s->needs = reserve((size_t)SLOTS * WORDS);
	s->trace.buf = malloc(BATCH_PAGES * PAGE);
	if (s->data && s->needs && s->trace.buf)
		return s;
	py_snap__free(s);
	return NULL;
}

void py_snap__free(struct py_snap *s)
{
	if (!s)
		return;
	if (s->data)
		munmap(s->data, (size_t)SLOTS * PIECE);
	if (s->needs)
		munmap(s->needs, (size_t)SLOTS * WORDS);
	free(s->trace.pages);
	free(s->trace.words);
	free(s->trace.buf);
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

static uint8_t *data_of(const struct py_snap *s, const struct slot *slot)
{
	return s->data + (size_t)(slot - &s->slots[0][0]) * PIECE;
}

static uint8_t *needs_of(const struct py_snap *s, const struct slot *slot)
{
	return s->needs[slot - &s->slots[0][0]];
}

/* Room for one more, and for the page behind the last. */
static void *make_room(void *array, size_t cnt, size_t *cap, size_t size)
{
	size_t more = *cap ? *cap * 2 : 1024;
	void *p = array;

	if (cnt + 1 < *cap)
		return array;
	p = reallocarray(array, more, size);
	if (p)
		*cap = more;
	return p;
}

static int keep_page(struct trace *t, uint64_t addr, const uint8_t *needs, const uint8_t *data)
{
	struct needed_page *pages = make_room(t->pages, t->pages_cnt, &t->pages_cap, sizeof(*pages));

	if (!pages)
		return -ENOMEM;
	t->pages = pages;
	t->pages[t->pages_cnt++] = (struct needed_page){ addr, (uint32_t)t->words_cnt };
	for (unsigned i = 0; i < PAGE_WORDS; i++) {
		struct needed_word *words;

		if (!needs[i])
			continue;
		words = NULL;
		if (t->words_cnt + t->pages_cnt < TRACE_MAX)
			words = make_room(t->words, t->words_cnt, &t->words_cap, sizeof(*words));
		if (!words)
			return -ENOMEM;
		t->words = words;
		t->words[t->words_cnt] = (struct needed_word){ .at = (uint16_t)i, .what = needs[i] };
		memcpy(&t->words[t->words_cnt++].value, data + i * 8, 8);
	}
	return 0;
}

/* Moves a slot's words to the trace: another piece comes, or another look at this one, or it is the end. */
static void keep_needed(struct py_snap *s, struct slot *slot)
{
	uint8_t *needs = needs_of(s, slot);

	for (unsigned i = 0; i < PIECE / PAGE; i++) {
		if (!(slot->needed >> i & 1))
			continue;
		if (s->trace.is_on && !s->trace.err)
			s->trace.err = keep_page(&s->trace, (slot->piece << PIECE_BITS) + (uint64_t)i * PAGE,
						 needs + i * PAGE_WORDS, data_of(s, slot) + (size_t)i * PAGE);
		memset(needs + i * PAGE_WORDS, 0, PAGE_WORDS);
	}
	slot->needed = 0;
}

void py_snap__forget(struct py_snap *s, uint64_t addr, size_t len)
{
	if (addr >= ADDR_MAX || len >= ADDR_MAX)
		return;
	for (uint64_t p = addr >> PIECE_BITS; p <= (addr + len) >> PIECE_BITS; p++)
		for (unsigned way = 0; way < WAYS; way++)
			if (s->slots[set_of(p)][way].piece == p) {
				keep_needed(s, &s->slots[set_of(p)][way]);
				s->slots[set_of(p)][way].look = s->look - 1;
			}
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

	keep_needed(s, slot);
	*slot = (struct slot){ .piece = piece, .look = s->look };
	if (!py_mem__read(&s->mem, (piece << PIECE_BITS) + off, data_of(s, slot) + off, len)) {
		s->bytes_read += len;
		slot->read = slot->there = (uint8_t)range;
		return;
	}
	for (unsigned i = first; i <= last; i++)
		read_page(s, slot, i);
}

/* The slot of the piece, with the pages read that the look before needed, or all. */
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

static void need(struct py_snap *s, struct slot *slot, unsigned off, unsigned len, enum py_word what)
{
	uint8_t *needs = needs_of(s, slot);
	unsigned first = off / 8, last = (off + len - 1) / 8;

	for (unsigned i = first; i <= last; i++)
		needs[i] |= (uint8_t)what;
	for (unsigned i = first / PAGE_WORDS; i <= last / PAGE_WORDS; i++)
		slot->needed |= 1u << i;
}

/* Where the bytes are, all of one piece; NULL: not all of them are there. `what` 0: nothing of it is kept. */
static const uint8_t *find(struct py_snap *s, uint64_t addr, size_t len, unsigned what)
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
	if ((slot->there & wanted) != wanted) {
		if (s->trace.is_on)
			s->trace.err = -EFAULT; /* an unmapped page cannot be kept */
		return NULL;
	}
	if (what && s->trace.is_on)
		need(s, slot, off, (unsigned)len, what);
	return data_of(s, slot) + off;
}

static int read_all(struct py_snap *s, uint64_t addr, void *buf, size_t len, unsigned what)
{
	uint8_t *to = buf;

	if (addr < PAGE || addr >= ADDR_MAX || len >= ADDR_MAX - addr)
		return -EFAULT;
	while (len) {
		size_t n = PIECE - addr % PIECE;
		const uint8_t *from;

		n = n < len ? n : len;
		from = find(s, addr, n, what);
		if (!from)
			return -EFAULT;
		memcpy(to, from, n);
		addr += n;
		to += n;
		len -= n;
	}
	return 0;
}

int py_snap__read(struct py_snap *s, uint64_t addr, void *buf, size_t len)
{
	return read_all(s, addr, buf, len, PY_WORD_SAME);
}

int py_snap__peek(struct py_snap *s, uint64_t addr, void *buf, size_t len)
{
	return read_all(s, addr, buf, len, 0);
}

uint64_t py_snap__word(struct py_snap *s, uint64_t addr)
{
	const uint8_t *from;
	uint64_t v = 0;

	if ((addr & 7) || addr < PAGE || addr >= ADDR_MAX)
		return py_snap__read(s, addr, &v, sizeof(v)) ? 0 : v;
	from = find(s, addr, sizeof(v), PY_WORD_SAME);
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

size_t py_snap__kept_bytes(const struct py_snap *s)
{
	return s->trace.pages_cnt * sizeof(*s->trace.pages) + s->trace.words_cnt * sizeof(*s->trace.words);
}

/* --- the words that a look read ----------------------------------------------------------------------- */

void py_snap__needs(struct py_snap *s, uint64_t addr, uint64_t value, enum py_word what)
{
	uint64_t now = ~value;

	if (!s->trace.is_on)
		return;
	if (addr & 7) /* parts of two words */
		what = PY_WORD_SAME;
	/* its piece may have been read again meanwhile */
	if (read_all(s, addr, &now, sizeof(now), what) || now != value)
		s->trace.err = -EAGAIN;
}

void py_snap__trace(struct py_snap *s, int is_wanted)
{
	s->trace.pages_cnt = s->trace.words_cnt = 0;
	s->trace.err = s->trace.is_whole = 0;
	s->trace.is_on = is_wanted;
	py_snap__fresh(s);
}

void py_snap__trace_end(struct py_snap *s)
{
	struct trace *t = &s->trace;

	for (size_t i = 0; i < SLOTS; i++)
		if (s->slots[i / WAYS][i % WAYS].needed)
			keep_needed(s, &s->slots[i / WAYS][i % WAYS]);
	t->is_on = 0;
	if (!t->err && t->pages_cnt)
		t->pages[t->pages_cnt].first = (uint32_t)t->words_cnt;
	t->is_whole = !t->err && t->pages_cnt;
}

static unsigned kind_of(uint64_t p)
{
	return p ? 1u + (unsigned)py_plausible(p) : 0;
}

static int is_word_same(const struct needed_word *w, uint64_t now)
{
	if (w->value == now)
		return 1;
	if ((w->what & PY_WORD_SAME) || ((w->what & PY_WORD_COUNT) && !(uint32_t)w->value != !(uint32_t)now))
		return 0;
	return !(w->what & PY_WORD_POINTER) || kind_of(w->value) == kind_of(now);
}

static int is_page_same(const struct trace *t, size_t page, const uint8_t *data)
{
	const struct needed_word *w = &t->words[t->pages[page].first], *end = &t->words[t->pages[page + 1].first];

	for (; w < end; w++) {
		uint64_t now;

		memcpy(&now, data + w->at * 8u, 8);
		if (!is_word_same(w, now))
			return 0;
	}
	return 1;
}

int py_snap__is_same(struct py_snap *s)
{
	struct trace *t = &s->trace;

	if (!t->is_whole)
		return 0;
	for (size_t i = 0; i < t->pages_cnt;) {
		struct iovec ranges[BATCH_PAGES];
		size_t ranges_cnt = 0, cnt = 0;

		for (; cnt < BATCH_PAGES && i + cnt < t->pages_cnt; cnt++) {
			uint64_t addr = t->pages[i + cnt].addr;

			if (cnt && addr == t->pages[i + cnt - 1].addr + PAGE)
				ranges[ranges_cnt - 1].iov_len += PAGE;
			else
				ranges[ranges_cnt++] = (struct iovec){ (void *)(uintptr_t)addr, PAGE };
		}
		s->bytes_read += cnt * PAGE;
		if (py_mem__read_ranges(&s->mem, ranges, ranges_cnt, t->buf, cnt * PAGE))
			return 0;
		for (size_t k = 0; k < cnt; k++)
			if (!is_page_same(t, i + k, t->buf + k * PAGE))
				return 0;
		i += cnt;
	}
	return 1;
}
