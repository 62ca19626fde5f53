/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "event/kinds.h"

#define ADDR EV_IN_ADDR
#define SIZE EV_IN_SIZE

/*
 * The default of `varies` and `steady` is right for kinds that are seldom, or whose events are often the same: each is a shape
 * in a recording, as long as there are not too many of them.
 */
const struct ev_kind_row ev_kind_rows[256] = {
	[MT_EV_ALLOC] = { "alloc", EV_WIRE_MEM, .varies = ADDR },
	[MT_EV_ALLOC_AT] = { "alloc_at", EV_WIRE_AT },
	[MT_EV_PLACE] = { "place_seen", EV_WIRE_PLACE },
	[MT_EV_FREE] = { "free", EV_WIRE_ADDR, .varies = ADDR },
	[MT_EV_OOM] = { "oom", EV_WIRE_MEM },
	[MT_EV_OP] = { "op", EV_WIRE_ADDR, .is_frame = 1 },
	[MT_EV_NODE] = { "node", EV_WIRE_MEM, .is_frame = 1 },
	[MT_EV_OP_BEGIN] = { "op_begin", EV_WIRE_ADDR, .is_frame = 1 },
	[MT_EV_OP_END] = { "op_end", EV_WIRE_ADDR },
	[MT_EV_REGION_BEGIN] = { "region_begin", EV_WIRE_MEM },
	[MT_EV_REGION_END] = { "region_end", EV_WIRE_MEM },
	[MT_EV_STEP] = { "step", EV_WIRE_ADDR, .varies = ADDR },
	[MT_EV_TAG] = { "tag", EV_WIRE_MEM, .varies = ADDR },
	[MT_EV_NAME] = { "name", EV_WIRE_NAME },
	[MT_EV_APPLY] = { "apply", .is_frame = 1 },
	[MT_EV_ACC] = { "accumulate", .is_frame = 1 },
	[EV_ARG] = { "arg" },
	[MT_EV_SAVED] = { "saved" },
	[MT_EV_MODULE] = { "module_taken", EV_WIRE_MEM },
	/* the process and the kernel */
	[MT_EV_MMAP] = { "mmap", EV_WIRE_MEM, .varies = ADDR | SIZE },
	[MT_EV_MUNMAP] = { "munmap", EV_WIRE_MEM, .varies = ADDR | SIZE },
	[MT_EV_BRK] = { "brk", EV_WIRE_ADDR, .varies = ADDR },
	[MT_EV_RSS] = { "rss", EV_WIRE_MEM, .keep = EV_KEEP_LAST, .thing = ADDR, .varies = SIZE, .steady = ADDR },
	[MT_EV_EXIT] = { "exit", EV_WIRE_MEM, .keep = EV_KEEP_ALL },
	[MT_EV_OOM_VICTIM] = { "oom_victim", EV_WIRE_ADDR, .pids = ADDR },
	/* the driver's layer and the caching allocator */
	[MT_EV_SEG_ALLOC] = { "seg_alloc", EV_WIRE_SEG, .keep = EV_KEEP_ALL, .thing = ADDR, .varies = ADDR },
	[MT_EV_SEG_FREE] = { "seg_free", EV_WIRE_SEG, .keep = EV_KEEP_ALL, .varies = ADDR },
	[MT_EV_SEG_MAP] = { "seg_map", EV_WIRE_SEG, .keep = EV_KEEP_ALL, .varies = ADDR },
	[MT_EV_SEG_UNMAP] = { "seg_unmap", EV_WIRE_SEG, .keep = EV_KEEP_ALL, .varies = ADDR },
	[MT_EV_SEG_FAIL] = { "seg_fail", EV_WIRE_SEG },
	[MT_EV_SEG_RESET] = { "seg_reset", EV_WIRE_SEG, .keep = EV_KEEP_ALL },
	[MT_EV_SEG_TRIM] = { "seg_trim", EV_WIRE_SEG, .keep = EV_KEEP_ALL },
	[MT_EV_SEG_COMM] = { "seg_comm", EV_WIRE_SEG, .keep = EV_KEEP_ALL },
	[MT_EV_SEG_GRAPH] = { "seg_graph", EV_WIRE_SEG, .keep = EV_KEEP_ALL },
	[MT_EV_SEG_POOL] = { "seg_pool", EV_WIRE_SEG, .keep = EV_KEEP_ALL },
	[MT_EV_TOTALS] = { "totals", EV_WIRE_MEM, .keep = EV_KEEP_LAST, .varies = ADDR | SIZE },
	[MT_EV_REQUEST] = { "request", EV_WIRE_SEG, .varies = ADDR },
	[MT_EV_REQUEST_FREE] = { "request_free", EV_WIRE_ADDR, .varies = ADDR },
	[MT_EV_STREAM] = { "stream", EV_WIRE_MEM, .varies = ADDR | SIZE },
	/* --stacks: records of lengths of their own (stack/) */
	[MT_EV_STACK] = { "stack_taken" },
	[MT_EV_STACK_RAW] = { "stack_raw" },
	[MT_EV_STACK_PY] = { "stack_py" },
	[EV_STACK] = { "stack", .names = ADDR },
	[EV_STACK_AT] = { "stack_at" },
	[EV_CAUGHT] = { "caught" },
	/* the trace and its processes */
	[EV_BEGIN] = { "begin", .keep = EV_KEEP_ALL },
	[EV_END] = { "end" },
	[EV_MACHINE] = { "machine", .keep = EV_KEEP_ALL },
	[EV_PROC] = { "proc", .names = ADDR, .pids = EV_IN_AUX, .keep = EV_KEEP_ALL },
	[EV_COMM] = { "comm", .keep = EV_KEEP_LAST, .thing = EV_IN_TID },
	[EV_GONE] = { "gone", .keep = EV_KEEP_ALL },
	[EV_LABEL] = { "label", .keep = EV_KEEP_ALL },
	[EV_ATTACH] = { "attach", .keep = EV_KEEP_ALL },
	[EV_COVER] = { "cover", .keep = EV_KEEP_LAST, .thing = EV_IN_NAME },
	[EV_SITE] = { "site", .keep = EV_KEEP_ALL },
	[EV_LATE_OP] = { "late_op", .keep = EV_KEEP_ALL },
	[EV_NOTE] = { "note", .keep = EV_KEEP_ALL },
	[EV_LEVEL] = { "level", .pids = EV_IN_AUX },
	[EV_PAUSE] = { "pause" },
	[EV_TICK] = { "tick" },
	/* counters and readings */
	[EV_COST] = { "cost", .keep = EV_KEEP_LAST, .thing = EV_IN_AUX, .sum_addr = EV_SUM_COUNTER, .sum_size = EV_SUM_COUNTER,
		      .base = EV_BASE_FLAG, .varies = ADDR | SIZE },
	[EV_SELF] = { "self", .keep = EV_KEEP_LAST, .sum_addr = EV_SUM_LEVEL, .sum_size = EV_SUM_COUNTER, .base = EV_BASE_FLAG,
		      .varies = ADDR | SIZE },
	[EV_FIRED] = { "fired", .keep = EV_KEEP_LAST, .thing = EV_IN_NAME, .sum_size = EV_SUM_COUNTER, .base = EV_BASE_FLAG },
	[EV_LOSS] = { "loss", .keep = EV_KEEP_LAST, .thing = EV_IN_AUX, .sum_size = EV_SUM_COUNTER, .varies = SIZE,
		      .steady = ADDR },
	[EV_OOM_KILL] = { "oom_kill", .keep = EV_KEEP_LAST, .sum_size = EV_SUM_COUNTER, .base = EV_BASE_FIRST },
	/* the operators are the same on each machine, or nearly */
	[EV_IDLE] = { "idle", .keep = EV_KEEP_LAST, .sum_addr = EV_SUM_COUNTER, .sum_size = EV_SUM_MAX },
	[EV_CPU] = { "cpu", .keep = EV_KEEP_LAST, .varies = SIZE, .steady = ADDR },
	[EV_STEPS] = { "step_count" },
	[EV_AFTER] = { "step_after", .varies = SIZE },
	[EV_STAYED] = { "stayed", .varies = ADDR },
	[EV_NVML] = { "nvml", .keep = EV_KEEP_LAST, .thing = EV_IN_AUX, .varies = SIZE, .steady = ADDR },
	[EV_COUNTERS] = { "counters", .keep = EV_KEEP_LAST, .thing = EV_IN_AUX, .varies = ADDR | SIZE },
	[EV_USE] = { "use", .keep = EV_KEEP_LAST, .thing = EV_IN_AUX, .varies = SIZE, .steady = ADDR },
	/* from Python's objects */
	[EV_TENSOR] = { "tensor", .names = EV_IN_TID | EV_IN_AUX | EV_IN_SEQ },
	[EV_TENSOR_OF] = { "tensor_of" },
	[EV_MODULE] = { "module", .names = EV_IN_TID | EV_IN_SEQ },
	[EV_HELD] = { "held", .names = EV_IN_SEQ | EV_IN_AUX, .keep = EV_KEEP_LAST, .thing = EV_IN_ADDR },
	[EV_COMPILED] = { "compiled", .names = EV_IN_TID | EV_IN_SEQ | EV_IN_AUX, .keep = EV_KEEP_ALL, .ago = ADDR },
	[EV_MODULE_AT] = { "module_at" },
	[EV_PLACE] = { "place", .names = ADDR | EV_IN_TID | EV_IN_SEQ | EV_IN_AUX, .keep = EV_KEEP_ALL },
	/* what was live when a recording begins in the middle */
	[EV_WAS] = { "was", .names = EV_IN_REGION },
	[EV_WAS_FLOW] = { "was_flow" },
	[EV_WAS_MODULE] = { "was_module" },
};

size_t event_wire_bytes(uint8_t kind)
{
	static const size_t bytes[] = {
		[EV_WIRE_ADDR] = sizeof(struct mt_rec_addr),
		[EV_WIRE_MEM] = sizeof(struct mt_rec_mem),
		[EV_WIRE_SEG] = sizeof(struct mt_rec_seg),
		[EV_WIRE_NAME] = sizeof(struct mt_rec_name),
		[EV_WIRE_AT] = sizeof(struct mt_rec_at),
		[EV_WIRE_PLACE] = sizeof(struct mt_rec_place),
	};

	return bytes[event_row(kind)->wire];
}

const char *event_kind_name(uint8_t kind)
{
	return event_row(kind)->name ? event_row(kind)->name : "?";
}
