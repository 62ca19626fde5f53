/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as events. Whatever they say: nothing breaks, every invariant holds, a report can be
 * made, and the same bytes make the same report again.
 *
 * Even first byte: short records, 8 bytes an event, with small numbers that meet each other (few
 * pids, few pointers). Odd: whole struct events, as a recording could carry them.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "sim/dump.h"

#define SHORT_BYTES 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static int swallow(void *ctx, const struct tl_event *ev)
{
	uint64_t *last = ctx;

	for (uint32_t i = 0; i < ev->edges_cnt; i++)
		require(ev->edges[i].id && ev->edges[i].cat < CAT_MAX && ev->edges[i].out_cat < CAT_MAX);
	if (ev->kind == TL_NODE) { /* told long after it began */
		require(ev->edges_cnt);
		return 0;
	}
	require(!ev->edges_cnt && ev->cat < CAT_MAX && ev->ts_ns >= *last);
	*last = ev->ts_ns;
	return 0;
}

static const uint8_t kinds[] = {
	MT_EV_ALLOC, MT_EV_ALLOC, MT_EV_FREE, MT_EV_FREE, MT_EV_OOM, MT_EV_OP, MT_EV_NODE,
	MT_EV_OP_BEGIN, MT_EV_OP_END, MT_EV_REGION_BEGIN, MT_EV_REGION_END, MT_EV_STEP, MT_EV_TAG,
	MT_EV_MMAP, MT_EV_MUNMAP, MT_EV_BRK, MT_EV_RSS, MT_EV_EXIT, EV_BEGIN, EV_END, EV_PROC,
	EV_COMM, EV_GONE, EV_LABEL, EV_COVER, EV_NOTE, EV_COST, EV_CPU, EV_LOSS, EV_TICK, EV_SELF, 0,
	MT_EV_APPLY, MT_EV_ACC, EV_ARG, EV_ARG, EV_ARG, EV_ARG, MT_EV_OP, MT_EV_NODE, EV_WAS, EV_WAS,
	EV_WAS_FLOW, EV_WAS_FLOW, EV_MODULE, EV_MODULE_AT, EV_MODULE_AT, EV_WAS_MODULE, EV_TENSOR_OF,
};

/* Of the driver's layer: depths so large say which. */
static const uint8_t gpu_kinds[] = {
	MT_EV_SEG_ALLOC, MT_EV_SEG_ALLOC, MT_EV_SEG_ALLOC, MT_EV_SEG_FREE, MT_EV_SEG_FREE, MT_EV_SEG_MAP, MT_EV_SEG_UNMAP,
	MT_EV_SEG_FAIL, MT_EV_SEG_RESET, MT_EV_SEG_TRIM, MT_EV_TOTALS, MT_EV_REQUEST, MT_EV_REQUEST, MT_EV_REQUEST_FREE,
	EV_NVML, EV_OOM_KILL, MT_EV_OOM_VICTIM, MT_EV_SEG_COMM, MT_EV_SEG_GRAPH, MT_EV_SEG_GRAPH, MT_EV_SEG_GRAPH,
	MT_EV_SEG_POOL, MT_EV_STREAM, MT_EV_STREAM,
};

static void event__expand(struct event *ev, const uint8_t *b)
{
	static const uint8_t devs[] = { MT_DEV_CPU, MT_DEV_HOST, MT_DEV_CUDA0, 255 };

	memset(ev, 0, sizeof(*ev));
	ev->kind = kinds[b[0] % sizeof(kinds)];
	if (b[0] >= 0xf8) /* what Python calls a block */
		ev->kind = EV_TENSOR;
	ev->dev = devs[(b[0] >> 5) & 3];
	ev->pid = 1 + (b[1] & 3);
	ev->tid = ev->pid * 4 + ((b[1] >> 2) & 3);
	ev->flags = b[1] >> 4;
	ev->addr = b[2];
	ev->size = (uint64_t)(b[3] & 15) << (b[3] >> 4) * 4;
	ev->depth = b[4];
	ev->seq = b[5];
	ev->name.v = b[6] & 31;
	ev->aux = b[7] & 63;
	if (ev->kind == EV_ARG) {
		ev->aux = (b[7] & 3u) | (uint32_t)b[1] << 8;
		ev->size = b[3] & 3;
		ev->dev = b[3] & 4 ? ev->dev : MT_DEV_NONE;
	}
	if (ev->kind == EV_MODULE) {
		ev->addr &= 15;
		ev->size &= 15;
		ev->tid = ev->seq & 31;
		ev->seq = 1;
	}
	if (ev->kind == EV_MODULE_AT) {
		ev->addr &= 15;
		ev->flags = (b[1] >> 4 & 1) | (b[1] & 0x20 ? EV_MODULE_BACKWARD : 0);
	}
	if (ev->kind == EV_WAS_MODULE)
		ev->size &= 15;
	if (b[4] >= 0xe0) {
		ev->kind = gpu_kinds[(b[4] & 15) + (b[5] & 1) * (sizeof(gpu_kinds) - 16)];
		ev->depth = 0;
		ev->addr <<= 8;
		ev->flags |= b[5] & 0x40;
		ev->dev = b[4] & 16 ? MT_DEV_CUDA0 : devs[(b[0] >> 5) & 3];
	}
	ev->ts_ns = (uint64_t)b[7] << (b[6] >> 5) * 8;
}

static char *run(const struct event *evs, size_t cnt, const struct names *names, size_t blocks_max,
		 int with_timeline)
{
	uint64_t last = 0;
	struct model_opts opts = {
		.blocks_max = blocks_max, .timeline = with_timeline ? swallow : NULL,
		.timeline_ctx = &last, .timeline_ops = 1, .timeline_nodes = with_timeline,
	};
	struct model *m = model__new(names, &opts);
	struct report *r = NULL;
	char *text;

	require(!!m);
	for (size_t i = 0; i < cnt; i++)
		require(model__handle(m, &evs[i]) == 0);
	model__check(m);
	require(model__end(m) == 0);
	model__check(m);
	require(model__report(m, 5, &r) == 0);
	text = report_dump(r);
	require(!!text);
	report__free(r);
	model__free(m);
	return text;
}

static void names__fill(struct names *names)
{
	char text[64];

	for (int i = 0; i < 16; i++) {
		snprintf(text, sizeof(text), i % 4 ? "name %d" : "Optimizer.step#%d=", i);
		if (i % 5 == 1)
			snprintf(text, sizeof(text), i & 2 ? "aten::detach" : "aten::zeros_like");
		if (i == 7)
			snprintf(text, sizeof(text), "aten::_has_compatible_shallow_copy_type");
		names__add(names, text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t each = size && (data[0] & 1) ? sizeof(struct event) : SHORT_BYTES;
	size_t cnt = size ? (size - 1) / each : 0;
	struct names *names = names__new();
	struct event *evs = calloc(cnt + 1, sizeof(*evs));
	size_t blocks_max = size ? data[0] >> 1 : 0;
	char *a, *b;

	require(names && evs);
	names__fill(names);
	for (size_t i = 0; i < cnt; i++) {
		if (each == SHORT_BYTES)
			event__expand(&evs[i], data + 1 + i * each);
		else
			memcpy(&evs[i], data + 1 + i * each, each);
	}
	a = run(evs, cnt, names, blocks_max, 1);
	b = run(evs, cnt, names, blocks_max, 0);
	require(!strcmp(a, b));
	free(a);
	free(b);
	free(evs);
	names__free(names);
	return 0;
}
