/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The words for kinds, losses and devices: in one place, so that every view says the same. */
#include "event/event.h"

#include <stdio.h>

static const char *const kind_names[EV_MAX] = {
	[MT_EV_ALLOC] = "alloc",
	[MT_EV_FREE] = "free",
	[MT_EV_OOM] = "oom",
	[MT_EV_OP] = "op",
	[MT_EV_NODE] = "node",
	[MT_EV_OP_BEGIN] = "op_begin",
	[MT_EV_OP_END] = "op_end",
	[MT_EV_REGION_BEGIN] = "region_begin",
	[MT_EV_REGION_END] = "region_end",
	[MT_EV_STEP] = "step",
	[MT_EV_TAG] = "tag",
	[MT_EV_NAME] = "name",
	[MT_EV_MMAP] = "mmap",
	[MT_EV_MUNMAP] = "munmap",
	[MT_EV_BRK] = "brk",
	[MT_EV_RSS] = "rss",
	[MT_EV_EXIT] = "exit",
	[MT_EV_APPLY] = "apply",
	[MT_EV_ACC] = "accumulate",
	[MT_EV_SEG_ALLOC] = "seg_alloc",
	[MT_EV_SEG_FREE] = "seg_free",
	[MT_EV_SEG_MAP] = "seg_map",
	[MT_EV_SEG_UNMAP] = "seg_unmap",
	[MT_EV_SEG_FAIL] = "seg_fail",
	[MT_EV_SEG_RESET] = "seg_reset",
	[MT_EV_SEG_TRIM] = "seg_trim",
	[MT_EV_SEG_COMM] = "seg_comm",
	[MT_EV_SEG_GRAPH] = "seg_graph",
	[MT_EV_SEG_POOL] = "seg_pool",
	[MT_EV_OOM_VICTIM] = "oom_victim",
	[MT_EV_TOTALS] = "totals",
	[MT_EV_REQUEST] = "request",
	[MT_EV_REQUEST_FREE] = "request_free",
	[MT_EV_STACK] = "stack_taken",
	[MT_EV_STACK_RAW] = "stack_raw",
	[MT_EV_STACK_PY] = "stack_py",
	[MT_EV_MODULE] = "module_taken",
	[MT_EV_STREAM] = "stream",
	[EV_BEGIN] = "begin",
	[EV_END] = "end",
	[EV_PROC] = "proc",
	[EV_COMM] = "comm",
	[EV_GONE] = "gone",
	[EV_LABEL] = "label",
	[EV_COVER] = "cover",
	[EV_NOTE] = "note",
	[EV_COST] = "cost",
	[EV_CPU] = "cpu",
	[EV_LOSS] = "loss",
	[EV_TICK] = "tick",
	[EV_SELF] = "self",
	[EV_SITE] = "site",
	[EV_FIRED] = "fired",
	[EV_ARG] = "arg",
	[EV_NVML] = "nvml",
	[EV_OOM_KILL] = "oom_kill",
	[EV_USE] = "use",
	[EV_WAS] = "was",
	[EV_WAS_FLOW] = "was_flow",
	[EV_STACK] = "stack",
	[EV_STACK_AT] = "stack_at",
	[EV_TENSOR_OF] = "tensor_of",
	[EV_TENSOR] = "tensor",
	[EV_MODULE] = "module",
	[EV_MODULE_AT] = "module_at",
	[EV_WAS_MODULE] = "was_module",
	[EV_MACHINE] = "machine",
	[EV_IDLE] = "idle",
	[EV_LATE_OP] = "late_op",
	[EV_ATTACH] = "attach",
};

static const char *const loss_names[MT_LOSS_MAX] = MT_LOSS_NAMES_INIT;

const char *event_kind_name(uint8_t kind)
{
	return kind < EV_MAX && kind_names[kind] ? kind_names[kind] : "?";
}

const char *loss_name(unsigned reason)
{
	return reason < MT_LOSS_MAX ? loss_names[reason] : NULL;
}

const char *dev_name(uint8_t dev, char *buf)
{
	if (dev == MT_DEV_NONE)
		snprintf(buf, 16, "none");
	else if (dev == MT_DEV_CPU)
		snprintf(buf, 16, "cpu");
	else if (dev == MT_DEV_HOST)
		snprintf(buf, 16, "host");
	else if (dev >= MT_DEV_CUDA0 && dev < MT_DEV_CUDA0 + MT_DEV_CUDA_MAX)
		snprintf(buf, 16, "cuda:%u", (unsigned)dev - MT_DEV_CUDA0);
	else
		snprintf(buf, 16, "dev%u", (unsigned)dev);
	return buf;
}
