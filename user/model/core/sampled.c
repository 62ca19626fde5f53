/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/sampled.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/core/check.h"
#include "model/core/device.h"

static unsigned __int128 device__integral(const struct device *d, int cat, uint64_t clock_ns)
{
	const struct device_cat *c = &d->cats[cat];

	return c->byte_ns + (unsigned __int128)c->live * (clock_ns - c->since_ns);
}

/* --- steps ------------------------------------------------------------------------------------------------------ */

void sampled__give_up(struct sampled *s, struct device *const *devs, unsigned devs_cnt)
{
	s->open_ts_ns = 0;
	for (unsigned i = 0; i < devs_cnt; i++)
		devs[i]->sampled.high = UINT64_MAX;
}

void sampled__done(struct sampled *s)
{
	free(s->v);
	*s = (struct sampled){ 0 };
}

void sampled__peak(struct device *d, uint64_t clock_ns)
{
	struct sampled_bytes *o = &d->sampled.open;

	d->sampled.high = o->peak = d->live;
	o->peak_ns = clock_ns;
	for (int c = 0; c < CAT_MAX; c++)
		o->at_peak[c] = d->cats[c].live;
}

static bool sampled__keeps(const struct sampled *s, uint64_t window)
{
	return !(window & ((1ull << s->shift) - 1));
}

void sampled__begin(struct sampled *s, struct device *const *devs, unsigned devs_cnt, uint32_t pid, uint64_t window,
		    uint64_t ts_ns)
{
	sampled__give_up(s, devs, devs_cnt);
	if (!devs_cnt || !sampled__keeps(s, window))
		return;
	s->open = (struct sampled_step){ .window = window, .begin_ns = gaps__clock(devs[0]->gaps, ts_ns) };
	s->open_ts_ns = ts_ns;
	s->open_pid = pid;
	for (unsigned i = 0; i < devs_cnt; i++) {
		for (int c = 0; c < CAT_MAX; c++)
			devs[i]->sampled.open.byte_ns[c] = device__integral(devs[i], c, s->open.begin_ns);
		sampled__peak(devs[i], s->open.begin_ns);
	}
}

/* Every second window of those that are left. */
static void sampled__thin(struct sampled *s, struct device *const *devs, unsigned devs_cnt)
{
	size_t kept = 0;

	s->shift++;
	for (size_t i = 0; i < s->cnt; i++) {
		if (!sampled__keeps(s, s->v[i].window))
			continue;
		for (unsigned k = 0; k < devs_cnt; k++)
			if (i < devs[k]->sampled.cnt)
				devs[k]->sampled.v[kept] = devs[k]->sampled.v[i];
		s->v[kept++] = s->v[i];
	}
	for (unsigned k = 0; k < devs_cnt; k++)
		devs[k]->sampled.cnt = kept < devs[k]->sampled.cnt ? kept : devs[k]->sampled.cnt;
	s->cnt = kept;
}

static bool sampled__has_room(struct sampled *s, struct device *const *devs, unsigned devs_cnt)
{
	if (s->cnt == SAMPLED_MAX)
		sampled__thin(s, devs, devs_cnt);
	if (s->cnt == SAMPLED_MAX || !sampled__keeps(s, s->open.window) || !array_has_room(s->v, s->cnt, s->cap, 16))
		return false;
	for (unsigned i = 0; i < devs_cnt; i++) {
		struct sampled_dev *d = &devs[i]->sampled;

		for (; d->cnt <= s->cnt; d->cnt++) {
			if (!array_has_room(d->v, d->cnt, d->cap, 16))
				return false;
			d->v[d->cnt] = (struct sampled_bytes){ 0 };
		}
	}
	return true;
}

void sampled__end(struct sampled *s, struct device *const *devs, unsigned devs_cnt, uint32_t pid, uint64_t marks,
		  uint64_t begin_ts_ns, uint64_t ts_ns)
{
	if (!s->open_ts_ns || s->open_ts_ns != begin_ts_ns || s->open_pid != pid || !sampled__has_room(s, devs, devs_cnt))
		return;
	s->open.end_ns = gaps__clock(devs[0]->gaps, ts_ns);
	s->open.marks = marks;
	for (unsigned i = 0; i < devs_cnt; i++) {
		struct sampled_dev *d = &devs[i]->sampled;

		d->v[s->cnt] = d->open;
		for (int c = 0; c < CAT_MAX; c++)
			d->v[s->cnt].byte_ns[c] = device__integral(devs[i], c, s->open.end_ns) - d->open.byte_ns[c];
	}
	s->v[s->cnt++] = s->open;
	sampled__give_up(s, devs, devs_cnt);
}

/* --- labels ------------------------------------------------------------------------------------------------------- */

static void sampled_bytes__move_peak(struct sampled_bytes *v, uint8_t from, uint8_t to, uint64_t size, uint64_t a_ns,
				     uint64_t b_ns)
{
	uint64_t part = size < v->at_peak[from] ? size : v->at_peak[from];

	if (v->peak_ns < a_ns || v->peak_ns >= b_ns)
		return;
	v->at_peak[from] -= part;
	v->at_peak[to] += part;
}

static void sampled_bytes__move(struct sampled_bytes *v, uint8_t from, uint8_t to, uint64_t size, uint64_t ns)
{
	unsigned __int128 part = (unsigned __int128)size * ns;

	part = part < v->byte_ns[from] ? part : v->byte_ns[from];
	v->byte_ns[from] -= part;
	v->byte_ns[to] += part;
}

static uint64_t overlap(uint64_t a_ns, uint64_t b_ns, uint64_t begin_ns, uint64_t end_ns)
{
	begin_ns = begin_ns > a_ns ? begin_ns : a_ns;
	end_ns = end_ns < b_ns ? end_ns : b_ns;
	return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

void sampled__relabel(struct device *d, const struct sampled *s, uint8_t from, uint8_t to, uint64_t size, uint64_t a_ns,
		      uint64_t b_ns)
{
	struct sampled_dev *v = &d->sampled;

	if (s->open_ts_ns) {
		sampled_bytes__move(&v->open, from, to, size, overlap(a_ns, b_ns, 0, s->open.begin_ns));
		sampled_bytes__move_peak(&v->open, from, to, size, a_ns, b_ns);
	}
	for (size_t i = v->cnt < s->cnt ? v->cnt : s->cnt; i-- && s->v[i].end_ns > a_ns;) {
		sampled_bytes__move(&v->v[i], from, to, size, overlap(a_ns, b_ns, s->v[i].begin_ns, s->v[i].end_ns));
		sampled_bytes__move_peak(&v->v[i], from, to, size, a_ns, b_ns);
	}
}

static void sampled_bytes__check(const struct sampled_bytes *v)
{
	uint64_t sum = 0;

	for (int c = 0; c < CAT_MAX; c++)
		sum += v->at_peak[c];
	mt_check(sum == v->peak);
}

void sampled__check(const struct sampled *s, const struct device *d)
{
	mt_check(s->cnt <= SAMPLED_MAX && d->sampled.cnt <= s->cnt + 1);
	mt_check((d->sampled.high != UINT64_MAX) == (s->open_ts_ns != 0));
	if (s->open_ts_ns)
		sampled_bytes__check(&d->sampled.open);
	if (d->sampled.cnt)
		sampled_bytes__check(&d->sampled.v[d->sampled.cnt - 1]);
}
