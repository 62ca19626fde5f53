/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A job in miniature: operators with their tensors, blocks, backward nodes, regions; told to a model. */
#ifndef MT_TESTS_FLOW_HELP_H
#define MT_TESTS_FLOW_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/flow/flow_state.h"
#include "model/state.h"
#include "timeline/report.h"

#define PID 100u
#define SIZE 64u
#define W MT_FLOW_F_WRITTEN
#define R MT_FLOW_F_REQUIRED
#define WEIGHT MT_FLOW_F_WEIGHT

static struct names *names;
static struct model *m;
static uint64_t ts, stride;
static uint32_t seq, seqs[MT_FRAMES_MAX + 1], tid;
static struct tl_event tl[4096];
static struct tl_edge tl_edges[8192];
static size_t tl_edges_cnt, tl_nodes;
static size_t tl_cnt;

static int keep(void *ctx, const struct tl_event *ev)
{
	(void)ctx;
	tl_nodes += ev->kind == TL_NODE;
	if (tl_cnt == sizeof(tl) / sizeof(tl[0]))
		return 0;
	tl[tl_cnt] = *ev;
	if (tl_edges_cnt + ev->edges_cnt <= sizeof(tl_edges) / sizeof(tl_edges[0])) {
		tl[tl_cnt].edges = &tl_edges[tl_edges_cnt];
		for (uint32_t i = 0; i < ev->edges_cnt; i++)
			tl_edges[tl_edges_cnt++] = ev->edges[i];
	}
	tl_cnt++;
	return 0;
}

static int setup_(int nodes)
{
	const struct model_opts opts = { .timeline = keep, .timeline_nodes = nodes };

	names = names__new();
	m = model__new(names, &opts);
	ts = 1000;
	stride = 10;
	seq = 0;
	tid = PID;
	tl_cnt = tl_edges_cnt = tl_nodes = 0;
	return !names || !m;
}

static int setup(void **state)
{
	(void)state;
	return setup_(0);
}

/* TL_NODE and TL_FINAL, too. */
__attribute__((unused)) static int setup_nodes(void **state)
{
	(void)state;
	return setup_(1);
}

static int teardown(void **state)
{
	(void)state;
	model__check(m);
	model__free(m);
	names__free(names);
	return 0;
}

__attribute__((unused)) static void send(struct event ev)
{
	ev.pid = PID;
	ev.tid = tid;
	ev.ts_ns = ts;
	assert_int_equal(model__handle(m, &ev), 0);
}

static void frame_of(uint8_t kind, const char *name, unsigned depth, uint8_t flags)
{
	ts += stride;
	seqs[depth] = ++seq;
	send((struct event){ .kind = kind, .name = names__add(names, name), .depth = (uint8_t)depth, .seq = seq,
			     .flags = flags });
}

static void frame(uint8_t kind, const char *name, unsigned depth)
{
	frame_of(kind, name, depth, 0);
}

/* Tensor of the frame opened last, at that depth. */
static void arg_of(unsigned depth, uint64_t ptr, unsigned index, unsigned flags, uint64_t size)
{
	send((struct event){ .kind = EV_ARG, .addr = ptr, .size = ptr ? size : 0, .seq = seqs[depth],
			     .depth = (uint8_t)(depth + 1), .aux = index | flags << 8 });
}

struct t {
	uint64_t ptr;
	unsigned flags;
};

static inline struct t t_of(uint64_t ptr, unsigned flags)
{
	return (struct t){ ptr, flags };
}

/* op(depth, "aten::add", T(A), T(B, W)): a frame and its tensors, by index. */
static void op_(unsigned depth, uint8_t kind, const char *name, const struct t *ts_, size_t cnt)
{
	frame(kind, name, depth);
	for (size_t i = 0; i < cnt; i++)
		arg_of(depth, ts_[i].ptr, (unsigned)i, ts_[i].flags, SIZE);
}
#define T_(ptr, flags, ...) t_of(ptr, flags)
#define T(...) T_(__VA_ARGS__, 0, 0)
#define op(depth, name, ...)                                                                               \
	op_(depth, MT_EV_OP, name, (struct t[]){ { 0 }, __VA_ARGS__ } + 1,                                 \
	    sizeof((struct t[]){ { 0 }, __VA_ARGS__ }) / sizeof(struct t) - 1)
#define apply(depth, name, ...)                                                                            \
	(frame(MT_EV_NODE, name, depth), op_((depth) + 1, MT_EV_APPLY, name, (struct t[]){ { 0 }, __VA_ARGS__ } + 1,  \
	    sizeof((struct t[]){ { 0 }, __VA_ARGS__ }) / sizeof(struct t) - 1))

static uint8_t where = MT_DEV_CPU; /* what is allocated and freed */

/* Inside the frame at depth - 1; depth 0: outside of all. */
static void allocated_of(uint64_t ptr, unsigned depth, uint64_t size)
{
	ts += stride;
	send((struct event){ .kind = MT_EV_ALLOC, .addr = ptr, .size = size, .dev = where,
			     .depth = (uint8_t)depth, .seq = depth ? seqs[depth - 1] : 0 });
}

static void allocated(uint64_t ptr, unsigned depth)
{
	allocated_of(ptr, depth, SIZE);
}

static void freed(uint64_t ptr, unsigned depth)
{
	ts += stride;
	send((struct event){ .kind = MT_EV_FREE, .addr = ptr, .dev = where, .depth = (uint8_t)depth,
			     .seq = depth ? seqs[depth - 1] : 0 });
}

/* AccumulateGrad: the gradient is taken as it is (detach), or added to the one that is there. */
__attribute__((unused)) static void accumulate(uint64_t variable, uint64_t grad, uint64_t incoming)
{
	frame(MT_EV_NODE, "torch::autograd::AccumulateGrad", 0);
	frame(MT_EV_ACC, "torch::autograd::AccumulateGrad", 1);
	arg_of(1, variable, 0, 0, SIZE);
	if (grad)
		arg_of(1, grad, 1, 0, SIZE);
	arg_of(1, incoming, 2, 0, SIZE);
	if (grad)
		op(2, "aten::add_.Tensor", T(grad, W | R), T(incoming, R));
	else
		op(2, "aten::detach", T(incoming, R));
}

/* idx: how many regions of the thread are open around it. */
__attribute__((unused)) static void region_at(uint8_t kind, const char *name, uint32_t idx)
{
	ts += stride;
	send((struct event){ .kind = kind, .name = names__add(names, name), .aux = idx });
}
#define region(kind, name) region_at(kind, name, 0)
#define step_begin() region(MT_EV_REGION_BEGIN, "Optimizer.step#SGD.step")
#define step_end() region(MT_EV_REGION_END, "")

/* An operator that makes one tensor. */
#define make(ptr, name, ...) (op(0, name, __VA_ARGS__), allocated(ptr, 1))

/* Any event of the thread outside all frames: what was open is over. */
static void tick(void)
{
	allocated(0xf000, 0);
	freed(0xf000, 0);
}

static const struct block *block(uint64_t ptr)
{
	return blocks__find(m->blocks, PID, where, ptr);
}

__attribute__((unused)) static const char *cat(uint64_t ptr)
{
	tick();
	model__check(m);
	assert_non_null(block(ptr));
	return category_name(block(ptr)->cat);
}

/* What the record of a block's death says. */
__attribute__((unused)) static const char *last_cat(uint64_t ptr)
{
	for (size_t i = tl_cnt; i--;)
		if (tl[i].kind == TL_DESTROY && tl[i].ptr == ptr)
			return category_name(tl[i].cat);
	return "not dead";
}

__attribute__((unused)) static uint32_t version(uint64_t ptr)
{
	tick();
	return graph__version(m->graph, block(ptr)->id);
}

__attribute__((unused)) static uint64_t byte_ns(enum category c)
{
	struct report *r = NULL;
	uint64_t v;

	assert_int_equal(model__report(m, 10, &r), 0);
	v = r->devs[0].cats[c].byte_ns;
	report__free(r);
	return v;
}

#endif
