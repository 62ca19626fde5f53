/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * tally: sums of blocks by maker: one row a name (operators in one tally, regions and backward nodes in
 * another), and one cell a row and device.
 *
 * Row 0 is "none": blocks without an op (or region), entries whose name is unknown, and everything
 * when the tally is full (counted in `overflow`). `epoch` is the device's: see struct device.
 * Devices are numbered densely, in the order in which they were first seen. Not thread-safe.
 */
#ifndef MT_MODEL_TALLY_H
#define MT_MODEL_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/names.h"

#define TALLY_ROWS_MAX (1u << 16)
#define TALLY_DEVS_MAX 66 /* cpu, host, 64 × cuda */

struct tally_row {
	name_id name;
	bool is_node;
	bool is_shadow;	   /* its cells belong to another row's … */
	uint32_t shown_as; /* … this one's; "none" until it has a name */
	uint64_t count; /* entries */
};

struct tally_cell {
	uint64_t live;
	uint64_t traced_live; /* when the last gap began */
	uint64_t at_peak; /* use cell__at_peak() */
	uint64_t epoch;
	uint64_t alloc_count, alloc_bytes, live_count;
};

struct tally {
	struct tally_row *rows;
	uint32_t cnt, cap;
	uint32_t *row_of; /* [name × 2 + is_node], 0 = no row yet */
	size_t row_of_cnt;
	struct {
		struct tally_cell *cells;
		uint32_t cnt;
	} devs[TALLY_DEVS_MAX];
	uint64_t overflow; /* entries that found no row */
};

int tally__init(struct tally *t); /* 0 or -ENOMEM; t is zeroed by the caller */
void tally__done(struct tally *t);
/* Makes room for a device's cells. 0 or -ENOMEM. */
int tally__add_dev(struct tally *t, unsigned dev_idx);
uint32_t tally__add_row(struct tally *t, name_id name, bool is_node);
/* A row without a name (0: table full). Naming it later merges it with an existing row of that name for display. */
uint32_t tally__add_shadow(struct tally *t);
void tally__hide(struct tally *t); /* a gap begins */
void tally__name_shadow(struct tally *t, uint32_t row, name_id name);
uint32_t tally__grow_cells(struct tally *t, unsigned dev_idx, uint32_t row);

/* Row of a name; made if new. */
static inline uint32_t tally__row(struct tally *t, name_id name, bool is_node)
{
	size_t key = (size_t)name.v * 2 + is_node;

	if (__builtin_expect(key < t->row_of_cnt && t->row_of[key], 1))
		return t->row_of[key];
	return tally__add_row(t, name, is_node);
}

/* The row that it is shown as. */
static inline uint32_t tally__shown(const struct tally *t, uint32_t row)
{
	return t->rows[row].is_shadow ? t->rows[row].shown_as : row;
}

/* The row itself if this device has a cell for it (made if needed), else 0. */
static inline uint32_t tally__ready(struct tally *t, unsigned dev_idx, uint32_t row)
{
	if (__builtin_expect(row < t->devs[dev_idx].cnt, 1))
		return row;
	return tally__grow_cells(t, dev_idx, row);
}

/* Live bytes at the device's peak: a cell not changed since still has them. */
static inline uint64_t cell__at_peak(const struct tally_cell *c, uint64_t epoch)
{
	return c->epoch == epoch ? c->at_peak : c->live;
}

/* As device__live_of(): in a gap no more than lived when it began. */
static inline uint64_t cell__live_of(const struct tally_cell *c, bool is_hidden)
{
	return is_hidden && c->traced_live < c->live ? c->traced_live : c->live;
}

static inline void cell__settle(struct tally_cell *c, uint64_t epoch)
{
	c->at_peak = cell__at_peak(c, epoch);
	c->epoch = epoch;
}

static inline void tally__allocated(struct tally *t, unsigned dev_idx, uint32_t row, uint64_t size,
			       uint64_t epoch)
{
	struct tally_cell *c = &t->devs[dev_idx].cells[row];

	cell__settle(c, epoch);
	c->live += size;
	c->live_count++;
	c->alloc_count++;
	c->alloc_bytes += size;
}

/* Live bytes of row 0. */
static inline uint64_t tally__nobodys(const struct tally *t, unsigned dev_idx)
{
	return t->devs[dev_idx].cells[0].live;
}

/* A preexisting block: live, but no allocation. */
static inline void tally__late(struct tally *t, unsigned dev_idx, uint32_t row, uint64_t size,
			      uint64_t epoch)
{
	struct tally_cell *c = &t->devs[dev_idx].cells[row];

	cell__settle(c, epoch);
	c->live += size;
	c->live_count++;
}

static inline void tally__freed(struct tally *t, unsigned dev_idx, uint32_t row, uint64_t size,
			       uint64_t epoch)
{
	struct tally_cell *c = &t->devs[dev_idx].cells[row];

	cell__settle(c, epoch);
	c->live -= size;
	c->live_count--;
}

#endif
