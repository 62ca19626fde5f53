/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Bytes as events. Even first byte: short records, 8 bytes an event, with small numbers that meet each other (few pids, few
 * pointers). Odd: whole struct events, as a recording could carry them.
 */
#ifndef MT_TESTS_SHORT_EVENTS_H
#define MT_TESTS_SHORT_EVENTS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor_kinds.h"
#include "event/event.h"

#define SHORT_BYTES 8
#define SHORT_NAMES_MAX 4096

static const uint8_t kinds[] = {
	MT_EV_ALLOC, MT_EV_ALLOC, MT_EV_FREE, MT_EV_FREE, MT_EV_OOM, MT_EV_OP, MT_EV_NODE,
	MT_EV_OP_BEGIN, MT_EV_OP_END, MT_EV_REGION_BEGIN, MT_EV_REGION_END, MT_EV_STEP, MT_EV_TAG,
	MT_EV_MMAP, MT_EV_MUNMAP, MT_EV_BRK, MT_EV_RSS, MT_EV_EXIT, EV_BEGIN, EV_END, EV_PROC,
	EV_COMM, EV_GONE, EV_LABEL, EV_COVER, EV_NOTE, EV_COST, EV_CPU, EV_LOSS, EV_TICK, EV_SELF, 0,
	MT_EV_APPLY, MT_EV_ACC, EV_ARG, EV_ARG, EV_ARG, MT_EV_SAVED, MT_EV_OP, MT_EV_NODE, EV_WAS, EV_WAS,
	EV_WAS_FLOW, EV_WAS_FLOW, EV_MODULE, EV_MODULE_AT, EV_MODULE_AT, EV_WAS_MODULE, EV_TENSOR_OF,
};

/* Of the driver's layer: depths so large say which. */
static const uint8_t gpu_kinds[] = {
	MT_EV_SEG_ALLOC, MT_EV_SEG_ALLOC, MT_EV_SEG_ALLOC, MT_EV_SEG_FREE, MT_EV_SEG_FREE, MT_EV_SEG_MAP, MT_EV_SEG_UNMAP,
	MT_EV_SEG_FAIL, MT_EV_SEG_RESET, MT_EV_SEG_TRIM, MT_EV_TOTALS, MT_EV_REQUEST, MT_EV_REQUEST, MT_EV_REQUEST_FREE,
	EV_NVML, EV_OOM_KILL, MT_EV_OOM_VICTIM, MT_EV_SEG_COMM, MT_EV_SEG_GRAPH, MT_EV_SEG_GRAPH, EV_COUNTERS,
	MT_EV_SEG_POOL, MT_EV_STREAM, MT_EV_STREAM,
};

static inline void event__expand(struct event *ev, const uint8_t *b)
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
	if (ev->kind == EV_TENSOR)
		ev->flags |= b[1] & EV_TENSOR_BITS;
	ev->addr = b[2];
	ev->size = (uint64_t)(b[3] & 15) << (b[3] >> 4) * 4;
	ev->depth = b[4];
	ev->seq = b[5];
	ev->name.v = b[6] & 31;
	ev->aux = b[7] & 63;
	if (!ev->kind && b[7] & 1) {
		ev->kind = EV_LEVEL;
		ev->flags = b[1] >> 2 & 7;
		ev->depth = b[4] & 3;
		ev->aux = ev->pid;
	}
	if (!ev->kind && (b[7] & 3) == 2) {
		ev->kind = EV_PAUSE;
		ev->flags = b[1] >> 2 & EV_PAUSE_BEGINS;
	}
	if (!ev->kind && (b[7] & 3) == 0 && b[7] & 4)
		ev->kind = EV_AFTER;
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

static inline void names__fill(struct names *names)
{
	char text[64];

	for (int i = 0; i < 16; i++) {
		snprintf(text, sizeof(text), i % 4 ? "name %d" : "Optimizer.step#%d=", i);
		if (i % 5 == 1)
			snprintf(text, sizeof(text), i & 2 ? "aten::detach" : "aten::zeros_like");
		if (i == 9 || i == 13)
			snprintf(text, sizeof(text), i == 9 ? "flow" : "framework");
		if (i == 7)
			snprintf(text, sizeof(text), "aten::_has_compatible_shallow_copy_type");
		names__add(names, text);
	}
}

/* As a file has it: one whose names are none of its own is refused when it is read. */
static inline void event__whole(struct event *ev, const uint8_t *b)
{
	memcpy(ev, b, sizeof(*ev));
	ev->name.v %= SHORT_NAMES_MAX;
}

/* malloc'ed. */
static inline struct event *events_of(const uint8_t *data, size_t size, size_t *ret_cnt)
{
	size_t each = size && (data[0] & 1) ? sizeof(struct event) : SHORT_BYTES;
	size_t cnt = size ? (size - 1) / each : 0;
	struct event *evs = calloc(cnt + 1, sizeof(*evs));

	for (size_t i = 0; evs && i < cnt; i++) {
		if (each == SHORT_BYTES)
			event__expand(&evs[i], data + 1 + i * each);
		else
			event__whole(&evs[i], data + 1 + i * each);
	}
	*ret_cnt = cnt;
	return evs;
}

#endif
