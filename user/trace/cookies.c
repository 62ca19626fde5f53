/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/cookies.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "memtrace.skel.h"
#include "plan/plan.h"

/* Number in the map of one equal to `spec`, added if need be; -ENOSPC. */
static int spec_table__add(struct spec_table *t, const void *spec)
{
	uint32_t i;

	for (i = 0; i < t->cnt; i++)
		if (!memcmp(t->v + i * t->bytes, spec, t->bytes))
			return (int)i;
	if (i >= t->max)
		return -ENOSPC;
	if (!t->v)
		t->v = calloc(t->max, t->bytes);
	if (!t->v)
		return -ENOMEM;
	if (bpf_map_update_elem(t->map_fd, &i, spec, BPF_ANY) < 0)
		return -errno;
	memcpy(t->v + i * t->bytes, spec, t->bytes);
	t->cnt++;
	return (int)i;
}

void cookies__init(struct cookies *c, const struct mt_bpf *skel)
{
	*c = (struct cookies){
		.usdt = { bpf_map__fd(skel->maps.specs), sizeof(struct mt_usdt_spec), .max = SPEC_CALIB },
		.seg = { bpf_map__fd(skel->maps.seg_specs), sizeof(struct mt_seg_spec), .max = SEG_SPEC_CALIB },
		.flow = { bpf_map__fd(skel->maps.flow_specs), sizeof(struct mt_flow_spec), .max = MT_FLOW_SPECS_MAX },
		.layouts = skel->bss->mt_flow_layouts,
		.classes_fd = bpf_map__fd(skel->maps.flow_classes),
		.fired_fd = bpf_map__fd(skel->maps.fired),
	};
}

void cookies__done(struct cookies *c)
{
	free(c->usdt.v);
	free(c->seg.v);
	free(c->flow.v);
	free(c->flow_index);
	free(c->classes);
	*c = (struct cookies){ 0 };
}

/* Number of a layout equal to `l`, added if need be; -ENOSPC. */
static int cookies__layout(struct cookies *c, const struct mt_flow_layout *l)
{
	uint32_t i;

	for (i = 0; i < c->layouts_cnt; i++)
		if (!memcmp(&c->layouts[i], l, sizeof(*l)))
			return (int)i;
	if (i >= MT_FLOW_LAYOUTS_MAX)
		return -ENOSPC;
	c->layouts[i] = *l;
	c->layouts_cnt++;
	return (int)i;
}

/* A class of the process's objects; kept once more here, to be taken out of the map when it goes. */
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
}

int cookies__begin(struct cookies *c, pid_t pid, const struct plan *plan)
{
	int layout;

	layout = plan->flow_layout.torch ? cookies__layout(c, &plan->flow_layout.at) : 0;
	if (layout < 0)
		return layout;
	c->flow_layout = (uint32_t)layout;
	free(c->flow_index);
	c->flow_index = calloc(plan->flow_specs_cnt + 1, sizeof(*c->flow_index));
	if (!c->flow_index)
		return -ENOMEM;
	for (size_t i = 0; i < plan->flow_vtables_cnt; i++) {
		int r = cookies__add_class(c, pid, &plan->flow_vtables[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Slot of a symbol in the map of fired counts; 0 (nobody's) when there are too many. */
static uint32_t cookies__slot(struct cookies *c, enum mt_prog prog, name_id sym)
{
	for (uint32_t i = 1; i <= c->fired_cnt; i++)
		if (c->fired[i].sym.v == sym.v && c->fired[i].prog == prog)
			return i;
	if (c->fired_cnt + 1 >= MT_FIRED_MAX)
		return 0;
	c->fired[++c->fired_cnt].sym = sym;
	c->fired[c->fired_cnt].prog = prog;
	return c->fired_cnt;
}

/* Number in the map of flow specs of the plan's; -errno. */
static int cookies__flow_spec(struct cookies *c, const struct plan *plan, uint64_t spec)
{
	int r;

	if (spec >= plan->flow_specs_cnt)
		return -EINVAL;
	if (c->flow_index[spec])
		return (int)c->flow_index[spec] - 1;
	r = spec_table__add(&c->flow, &plan->flow_specs[spec]);
	if (r >= 0)
		c->flow_index[spec] = (uint32_t)r + 1;
	return r;
}

int cookies__of(struct cookies *c, const struct plan *plan, const struct site *s, uint64_t *ret)
{
	int spec;

	switch (s->prog) {
	case MT_PROG_USDT:
		spec = s->cookie < plan->specs_cnt ? spec_table__add(&c->usdt, &plan->specs[s->cookie]) : -EINVAL;
		if (spec < 0)
			return spec;
		*ret = MT_COOKIE(spec, cookies__slot(c, MT_PROG_USDT, s->sym));
		return 0;
	case MT_PROG_SEG_ENTER:
	case MT_PROG_SEG_RET:
		spec = s->cookie < plan->seg_specs_cnt ? spec_table__add(&c->seg, &plan->seg_specs[s->cookie]) : -EINVAL;
		if (spec < 0)
			return spec;
		*ret = MT_COOKIE(spec, cookies__slot(c, MT_PROG_SEG_ENTER, s->sym));
		return 0;
	case MT_PROG_HOST_FREE:
	case MT_PROG_HOST_ENTER:
		*ret = MT_COOKIE(s->cookie, cookies__slot(c, (enum mt_prog)s->prog, s->sym));
		return 0;
	case MT_PROG_FLOW_OP:
		spec = cookies__flow_spec(c, plan, s->cookie >> 32);
		if (spec < 0)
			return spec;
		*ret = MT_FLOW_COOKIE((uint64_t)spec << 32 | (uint32_t)s->cookie, c->flow_layout);
		return 0;
	case MT_PROG_FLOW_APPLY:
	case MT_PROG_FLOW_ACC:
		*ret = MT_FLOW_COOKIE(0, c->flow_layout);
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
