/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/cookies.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/free.h"
#include "base/quota.h"
#include "memtrace.skel.h"
#include "plan/plan.h"

#define LAYOUTS_PART 8 /* an eighth of what the others leave: libraries of one process have one, or two */
#define SLOTS_PART 2   /* half of it: all functions that can be probed are 400 */

/* The place of an equal spec, or a free one; -ENOSPC. */
static int spec_table__place(const struct spec_table *t, const void *spec)
{
	int free_at = -ENOSPC;

	for (uint32_t i = 0; i < t->cnt; i++) {
		if (!memcmp(t->v + i * t->bytes, spec, t->bytes))
			return (int)i;
		if (!t->users[i] && free_at < 0)
			free_at = (int)i;
	}
	return free_at >= 0 || t->cnt == t->max ? free_at : (int)t->cnt;
}

/* Number in the map of an equal spec, added if need be, for the process whose plan is being attached. */
static int cookies__spec(struct cookies *c, int table, const void *spec)
{
	struct spec_table *t = &c->specs[table];
	uint64_t *bits = c->user->of[table].bits;
	int i;

	if (!t->v)
		t->v = calloc(t->max, t->bytes);
	if (!t->users)
		t->users = calloc(t->max, sizeof(*t->users));
	if (!t->v || !t->users)
		return -ENOMEM;
	i = spec_table__place(t, spec);
	if (i < 0 || bits[i / 64] & 1ull << i % 64)
		return i;
	if (c->user->of[table].cnt >= t->share)
		return -ENOSPC;
	if (!t->users[i]) {
		if (bpf_map_update_elem(t->map_fd, &i, spec, BPF_ANY) < 0)
			return -errno;
		memcpy(t->v + (uint32_t)i * t->bytes, spec, t->bytes);
		t->cnt += (uint32_t)i == t->cnt;
	}
	t->users[i]++;
	bits[i / 64] |= 1ull << i % 64;
	c->user->of[table].cnt++;
	return i;
}

static int cookies__user(struct cookies *c, pid_t pid)
{
	for (size_t i = 0; i < c->users_cnt; i++) {
		if (c->users[i]->pid == pid) {
			c->user = c->users[i];
			return 0;
		}
	}
	if (!array_has_room(c->users, c->users_cnt, c->users_cap, 16))
		return -ENOMEM;
	c->user = calloc(1, sizeof(*c->user));
	if (!c->user)
		return -ENOMEM;
	c->user->pid = pid;
	c->users[c->users_cnt++] = c->user;
	return 0;
}

static void cookies__drop_user(struct cookies *c, struct spec_user *u)
{
	for (int table = 0; table < SPEC_TABLES; table++)
		for (uint32_t i = 0; i < c->specs[table].cnt; i++)
			if (u->of[table].bits[i / 64] & 1ull << i % 64)
				c->specs[table].users[i]--;
	for (uint32_t i = 0; i < c->layouts_cnt; i++)
		c->layout_users[i] -= u->layouts >> i & 1;
	for (uint32_t i = 1; i <= c->fired_cnt; i++) {
		if (!(u->slots[i / 64] >> i % 64 & 1))
			continue;
		c->fired_used -= !--c->fired[i].users;
	}
	c->user = c->user == u ? NULL : c->user;
	free(u);
}

static struct spec_table spec_table(const struct bpf_map *map, size_t bytes, uint32_t max, uint32_t parts)
{
	return (struct spec_table){ .map_fd = bpf_map__fd(map), .bytes = bytes, .max = max, .share = max / parts };
}

/* A process has a quarter of the USDT specs (a USDT probe each), and half of the others (torch's operators: hundreds). */
void cookies__init(struct cookies *c, const struct mt_bpf *skel)
{
	*c = (struct cookies){
		.specs = { [SPEC_USDT] = spec_table(skel->maps.specs, sizeof(struct mt_usdt_spec), SPEC_CALIB, 4),
			   [SPEC_SEG] = spec_table(skel->maps.seg_specs, sizeof(struct mt_seg_spec), SEG_SPEC_CALIB, 2),
			   [SPEC_FLOW] = spec_table(skel->maps.flow_specs, sizeof(struct mt_flow_spec), MT_FLOW_SPECS_MAX, 2) },
		.layouts = skel->bss->mt_flow_layouts,
		.classes_fd = bpf_map__fd(skel->maps.flow_classes),
		.fired_fd = bpf_map__fd(skel->maps.fired),
	};
}

void cookies__done(struct cookies *c)
{
	while (c->users_cnt)
		cookies__drop_user(c, c->users[--c->users_cnt]);
	for (int table = 0; table < SPEC_TABLES; table++) {
		free(c->specs[table].v);
		free(c->specs[table].users);
	}
	free_all(c->users, c->flow_index, c->classes);
	*c = (struct cookies){ 0 };
}

_Static_assert(MT_FLOW_LAYOUTS_MAX <= 64, "a bit each in struct spec_user");

/* Number of a layout equal to `l`, added if need be for the process whose plan is being attached; -ENOSPC. */
static int cookies__layout(struct cookies *c, const struct mt_flow_layout *l)
{
	uint32_t at = c->layouts_cnt, used = 0, i;
	struct spec_user *u = c->user;

	for (i = 0; i < c->layouts_cnt && memcmp(&c->layouts[i], l, sizeof(*l)); i++) {
		used += c->layout_users[i] != 0;
		at = !c->layout_users[i] && at == c->layouts_cnt ? i : at;
	}
	at = i < c->layouts_cnt ? i : at;
	if (at < MT_FLOW_LAYOUTS_MAX && u->layouts >> at & 1)
		return (int)at;
	if (i == c->layouts_cnt) {
		if (!quota_allows((size_t)__builtin_popcountll(u->layouts), used, MT_FLOW_LAYOUTS_MAX, LAYOUTS_PART))
			return -ENOSPC;
		c->layouts[at] = *l;
		c->layouts_cnt += at == c->layouts_cnt;
	}
	c->layout_users[at]++;
	u->layouts |= 1ull << at;
	return (int)at;
}

/* A class of the process's objects; also kept here, so that it can be removed from the map later. */
static int cookies__add_class(struct cookies *c, pid_t pid, const struct flow_vtable *v)
{
	struct mt_class_key k = { .vtable = v->addr, .pid = (uint64_t)pid };

	if (!bpf_map_update_elem(c->classes_fd, &k, &v->class, BPF_EXIST))
		return 0;
	if (!array_has_room(c->classes, c->classes_cnt, c->classes_cap, 64))
		return -ENOMEM;
	if (bpf_map_update_elem(c->classes_fd, &k, &v->class, BPF_ANY) < 0)
		return -errno;
	c->classes[c->classes_cnt++] = k;
	return 0;
}

void cookies__drop_pid(struct cookies *c, pid_t pid)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->classes_cnt; i++) {
		if (c->classes[i].pid == (uint64_t)pid)
			(void)bpf_map_delete_elem(c->classes_fd, &c->classes[i]);
		else
			c->classes[kept++] = c->classes[i];
	}
	c->classes_cnt = kept;
	for (size_t i = 0; i < c->users_cnt; i++) {
		if (c->users[i]->pid == pid) {
			cookies__drop_user(c, c->users[i]);
			c->users[i] = c->users[--c->users_cnt];
			return;
		}
	}
}

/* How many found no room: the map is full, or the process has used its share of it. */
static uint32_t cookies__add_classes(struct cookies *c, pid_t pid, const struct plan *plan)
{
	uint32_t left_out = 0;
	size_t has = 0;

	for (size_t i = 0; i < c->classes_cnt; i++)
		has += c->classes[i].pid == (uint64_t)pid;
	for (size_t i = 0; i < plan->flow_vtables_cnt; i++) {
		size_t before = c->classes_cnt;

		if (has >= MT_FLOW_CLASSES_SHARE || cookies__add_class(c, pid, &plan->flow_vtables[i]) < 0)
			left_out++;
		has += c->classes_cnt - before;
	}
	return left_out;
}

int cookies__begin(struct cookies *c, pid_t pid, const struct plan *plan, uint32_t *ret_left_out)
{
	uint32_t left_out;
	int r = cookies__user(c, pid);

	if (r < 0)
		return r;
	c->flow_layout = plan->flow_layout.torch ? cookies__layout(c, &plan->flow_layout.at) : 0;
	free(c->flow_index);
	c->flow_index = calloc(plan->flow_specs_cnt + 1, sizeof(*c->flow_index));
	if (!c->flow_index)
		return -ENOMEM;
	left_out = cookies__add_classes(c, pid, plan);
	c->slots_left_out = 0;
	if (ret_left_out)
		*ret_left_out = left_out;
	return 0;
}

/* From now on the slot counts another symbol: its old counts are cleared. */
static void cookies__clear_slot(const struct cookies *c, uint32_t slot)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *zeros = cpus > 0 ? calloc((size_t)cpus, sizeof(*zeros)) : NULL;

	if (zeros)
		(void)bpf_map_update_elem(c->fired_fd, &slot, zeros, BPF_ANY);
	free(zeros);
}

/* Slot of a symbol in the map of fired counts, for the process whose plan is being attached; 0 (unused): no room. */
static uint32_t cookies__slot(struct cookies *c, enum mt_prog prog, name_id sym)
{
	struct spec_user *u = c->user;
	uint32_t at = 0, i;

	for (i = 1; i <= c->fired_cnt && (c->fired[i].sym.v != sym.v || c->fired[i].prog != prog); i++)
		at = !at && !c->fired[i].users ? i : at;
	if (i <= c->fired_cnt && u->slots[i / 64] >> i % 64 & 1)
		return i;
	if ((i > c->fired_cnt || !c->fired[i].users) &&
	    !quota_allows(u->slots_cnt, c->fired_used, MT_FIRED_MAX - 1, SLOTS_PART)) {
		c->slots_left_out++;
		return 0;
	}
	if (i > c->fired_cnt) { /* never used slots come first, so that ended processes keep their counts */
		if (c->fired_cnt + 1 == MT_FIRED_MAX)
			cookies__clear_slot(c, at);
		i = c->fired_cnt + 1 < MT_FIRED_MAX ? ++c->fired_cnt : at;
		c->fired[i].sym = sym;
		c->fired[i].prog = prog;
	}
	c->fired_used += !c->fired[i].users++;
	u->slots[i / 64] |= 1ull << i % 64;
	u->slots_cnt++;
	return i;
}

/* Number in the map of the plan's flow spec; -errno. */
static int cookies__flow_spec(struct cookies *c, const struct plan *plan, uint64_t spec)
{
	int r;

	if (spec >= plan->flow_specs_cnt)
		return -EINVAL;
	if (c->flow_index[spec])
		return (int)c->flow_index[spec] - 1;
	r = cookies__spec(c, SPEC_FLOW, &plan->flow_specs[spec]);
	if (r >= 0)
		c->flow_index[spec] = (uint32_t)r + 1;
	return r;
}

int cookies__of(struct cookies *c, const struct plan *plan, const struct site *s, uint64_t *ret)
{
	int spec;

	switch (s->prog) {
	case MT_PROG_USDT:
		spec = s->cookie < plan->specs_cnt ? cookies__spec(c, SPEC_USDT, &plan->specs[s->cookie]) : -EINVAL;
		if (spec < 0)
			return spec;
		*ret = MT_COOKIE(spec, cookies__slot(c, MT_PROG_USDT, s->sym));
		return 0;
	case MT_PROG_SEG_ENTER:
	case MT_PROG_SEG_RET:
		spec = s->cookie < plan->seg_specs_cnt ? cookies__spec(c, SPEC_SEG, &plan->seg_specs[s->cookie]) : -EINVAL;
		if (spec < 0)
			return spec;
		*ret = MT_COOKIE(spec, cookies__slot(c, MT_PROG_SEG_ENTER, s->sym));
		return 0;
	case MT_PROG_HOST_FREE:
	case MT_PROG_HOST_ENTER:
		*ret = MT_COOKIE(s->cookie, cookies__slot(c, (enum mt_prog)s->prog, s->sym));
		return 0;
	case MT_PROG_FLOW_OP:
		spec = c->flow_layout < 0 ? c->flow_layout : cookies__flow_spec(c, plan, s->cookie >> 32);
		if (spec < 0)
			return spec;
		*ret = MT_FLOW_COOKIE((uint64_t)spec << 32 | (uint32_t)s->cookie, (uint32_t)c->flow_layout);
		return 0;
	case MT_PROG_FLOW_APPLY:
	case MT_PROG_FLOW_ACC:
	case MT_PROG_FLOW_BOXED:
		if (c->flow_layout < 0)
			return c->flow_layout;
		*ret = MT_FLOW_COOKIE(s->cookie, (uint32_t)c->flow_layout);
		c->prog_sym[s->prog] = s->sym;
		return 0;
	case MT_PROG_NODE:
		*ret = plan->flow_layout.torch && c->flow_layout >= 0 ?
			       MT_FLOW_COOKIE(MT_NODE_LAYOUT, (uint32_t)c->flow_layout) : 0;
		c->prog_sym[s->prog] = s->sym;
		return 0;
	default:
		c->prog_sym[s->prog] = s->sym;
		*ret = s->cookie;
		return 0;
	}
}

int cookies__each_fired(const struct cookies *c, const uint64_t hits[MT_PROG_MAX],
			void (*fn)(void *ctx, name_id sym, uint64_t cnt), void *ctx)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *each = cpus > 0 ? calloc((size_t)cpus, sizeof(*each)) : NULL;

	if (!each)
		return -ENOMEM;
	for (uint32_t i = 1; i <= c->fired_cnt; i++) {
		uint64_t sum = 0;

		if (bpf_map_lookup_elem(c->fired_fd, &i, each) < 0)
			continue;
		for (int k = 0; k < cpus; k++)
			sum += each[k];
		fn(ctx, c->fired[i].sym, sum);
	}
	free(each);
	for (unsigned i = 1; i < MT_PROG_MAX; i++)
		if (c->prog_sym[i].v && i != MT_PROG_OP && i != MT_PROG_FLOW_OP && i != MT_PROG_HOST_RET &&
		    i != MT_PROG_HOST_EXIT)
			fn(ctx, c->prog_sym[i], hits[i]);
	return 0;
}
