/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* view_fix: reports made by hand, with everything in them, and one from a hostile target. */
#ifndef MT_TESTS_VIEW_FIX_H
#define MT_TESTS_VIEW_FIX_H

#include <string.h>

#include "event/event.h"
#include "timeline/report.h"

#define FIX_T0 5000000000ull
#define FIX_EPOCH_OFF 1795251162000000000ll
#define HOSTILE "evil\x1b[2J\x07\r\n\"quoted\\\"\xff\xc3(\xed\xa0\x80 \xe2\x80\xae\x7f,end"

static struct point fix_points[] = {
	{ FIX_T0, 1 << 20, 1 << 19 },
	{ FIX_T0 + 1000000000, 123456789, 100000000 },
	{ FIX_T0 + 2000000000, 100000000, 12345678 },
};

static struct point fix_rss[] = {
	{ FIX_T0, 691ull << 20, 691ull << 20 },
	{ FIX_T0 + 1000000000, 700ull << 20, 491ull << 20 },
};

static struct report_dev fix_devs[] = {
	{ .dev = MT_DEV_CPU, .live = 12345678, .peak = 123456789, .peak_ts_ns = FIX_T0 + 1234567890, .allocs = 123456,
	  .frees = 123400, .alloc_bytes = 98765432100ull, .free_bytes = 98753086422ull, .preexisting_frees = 34,
	  .preexisting_blocks = 12, .preexisting_bytes = 4567890,
	  .dropped = 3, .dropped_bytes = 4096, .byte_ns = 123456789000000000ull,
	  .cats = { [CAT_UNKNOWN] = { 2345678, 23456789, 23456789000000000ull },
		    [CAT_PARAMETER] = { 9000000, 90000000, 90000000000000000ull },
		    [CAT_GRADIENT] = { 0, 9000000, 9000000000000000ull },
		    [CAT_BUFFER] = { 1000000, 1000000, 1000000000000000ull } },
	  .series = { fix_points, 3, 1000000000 } },
	{ .dev = MT_DEV_HOST, .live = 600, .peak = 1000, .peak_ts_ns = FIX_T0 + 10, .allocs = 10, .frees = 4,
	  .alloc_bytes = 1000, .free_bytes = 400 },
	{ .dev = MT_DEV_CUDA0 + 1, .live = 3ull << 30, .peak = 70ull << 30, .peak_ts_ns = FIX_T0 + 2000000000,
	  .allocs = 77, .frees = 7, .alloc_bytes = 80ull << 30, .free_bytes = 10ull << 30, .ooms = 2,
	  .oom_bytes_last = 40ull << 30,
	  .segs = { .seen = 1, .totals = 1, .requests = 1, .backend = BACKEND_EXPANDABLE, .live = 60ull << 30,
		    .peak = 72ull << 30, .peak_ts_ns = FIX_T0 + 1900000000, .cached = 58ull << 30, .other = 2ull << 30,
		    .allocated = 5ull << 30, .allocated_peak = 71ull << 30, .allocated_before = 2ull << 30,
		    .reserved = 62ull << 30, .reserved_peak = 72ull << 30, .reserved_before = 4ull << 30,
		    .requested = 3000000000, .requested_peak = 4000000000, .rounding = 123456, .inactive = 7ull << 30,
		    .free_cached = 48ull << 30, .largest_free = 40ull << 30, .resets = 1, .trims = 2,
		    .driver = 64ull << 30, .allocator = 62ull << 30, .tensors = (5ull << 30) - 123456,
		    .unused = 54ull << 30, .private_free = 3ull << 30, .private_reserved = 4ull << 30,
		    .private_used = 1ull << 30, .others = 2ull << 30, .nvml = 1, .nvml_procs = 1, .nvml_used = 70ull << 30,
		    .nvml_used_peak = 79ull << 30, .nvml_own = 65ull << 30, .nvml_own_peak = 75ull << 30,
		    .residual = 1ull << 30,
		    .kinds = { [MT_SEG_DEVICE] = { .live = 2ull << 30, .peak = 3ull << 30, .allocs = 9, .frees = 5 },
			       [MT_SEG_PHYSICAL] = { .live = 58ull << 30, .peak = 70ull << 30, .allocs = 3600, .frees = 600,
						     .fails = 3, .fail_bytes_last = 20 << 20, .fail_code_last = 2 } } } },
};

static struct report_pool fix_pools[] = {
	{ .id = { 0, 7 }, .reserved = 4ull << 30, .used = 1ull << 30, .launches = 120000, .pid = 4242, .segments = 3,
	  .graphs = 3, .uses = 24, .dev = MT_DEV_CUDA0 + 1, .last = { FIX_T0 + 1500000000, 0, 5 },
	  .first = { { FIX_T0 + 1000000000, 80000, 1 }, { FIX_T0 + 1200000000, 40000, 2 }, { FIX_T0 + 1500000000, 0, 5 } } },
	{ .id = { 18446744073709551615ull, 0 }, .reserved = 2 << 20, .pid = 4250, .segments = 1, .dev = MT_DEV_CUDA0 + 1 },
};

static struct report_oom fix_ooms[] = {
	{ .kind = OOM_DEVICE, .dev = MT_DEV_CUDA0 + 1, .ts_ns = FIX_T0 + 2000000000, .pid = 4242, .tid = 4243,
	  .comm = "python", .op = "aten::convolution", .region = "Forward", .module = "layers.0", .root = "Net",
	  .phase = PHASE_FORWARD, .api = "cuMemCreate", .code = 2, .times = 2,
	  .asked = 40ull << 30, .live = 5ull << 30, .allocated = 5ull << 30, .reserved = 62ull << 30,
	  .unused = 54ull << 30, .private_free = 3ull << 30, .largest_free = 30ull << 30, .driver = 64ull << 30,
	  .cats = { [CAT_UNKNOWN] = 1 << 20, [CAT_PARAMETER] = 3ull << 30 },
	  .ops = { { "aten::addmm", 4ull << 30 }, { "", 1ull << 30 } }, .ops_cnt = 2,
	  .segs = { { .addr = 0x7f0000000000, .size = 40ull << 30, .used = 10ull << 30, .largest_free = 30ull << 30,
		      .pid = 4242, .blocks = 123, .dev = MT_DEV_CUDA0 + 1, .kind = MT_SEG_PHYSICAL, .is_cached = 1 },
		    { .addr = 0x7e0000000000, .size = 1ull << 30, .pid = 4242, .dev = MT_DEV_CUDA0 + 1,
		      .kind = MT_SEG_DEVICE, .is_comm = 1 } },
	  .segs_cnt = 2,
	  .blocks = { { .id = 7, .ptr = 0x7f0000001000, .size = 3ull << 30, .allocated_ts_ns = FIX_T0 + 1000000000,
			.op = "aten::addmm", .region = "", .dev = MT_DEV_CUDA0 + 1, .cat = CAT_PARAMETER } },
	  .blocks_cnt = 1, .rss = { 90 << 20, 400 << 20, 0, 1 << 20 }, .rss_total = 491ull << 20 },
	{ .kind = OOM_DEATH, .killed = 1, .ts_ns = FIX_T0 + 2500000000, .pid = 4250, .tid = 4250, .exit_status = 9,
	  .times = 1, .comm = "pt_data_worker", .op = "", .region = "", .api = "", .live = 4096,
	  .rss = { 0, 200 << 20, 0, 0 }, .rss_total = 200ull << 20 },
};

static struct report_op fix_ops[] = {
	{ .name = "aten::addmm", .count = 30000, .alloc_count = 30000, .alloc_bytes = 5ull << 30, .live_count = 2,
	  .live = 8 << 20, .at_peak = 60ull << 30 },
	{ .name = "aten::_scaled_dot_product_flash_attention_for_cpu_backward_with_a_very_long_name.out", .count = 1000,
	  .alloc_count = 2000, .alloc_bytes = 123456789, .live_count = 9, .live = 64 << 20, .at_peak = 98765432 },
	{ .name = "aten::empty", .count = 9999, .alloc_count = 1, .alloc_bytes = 512 },
	{ .name = "aten::t", .count = 123456789 },
	{ .name = "aten::\xe5\xbc\xa0\xe9\x87\x8f", .count = 5, .alloc_count = 5, .alloc_bytes = 50, .live = 10 },
};

static struct report_op fix_regions[] = {
	{ .name = "Optimizer.step#Adam.step", .count = 1005, .alloc_count = 12000, .alloc_bytes = 192 << 20,
	  .at_peak = 32 << 20 },
	{ .name = "AddmmBackward0", .is_node = 1, .count = 9999, .alloc_count = 1, .alloc_bytes = 512 },
};

static struct step_marks fix_steps[] = {
	{ .is_settling = 1, .number = 1004, .pid = 4242, .at = { [MARK_FW_START] = { FIX_T0 + 1000000000, 9000000, 12345678 },
					       [MARK_FW_BW_BOUNDARY] = { FIX_T0 + 1234567890, 123000000, 123456789 },
					       [MARK_STEP] = { FIX_T0 + 1500000000, 12345678, 123000000 } } },
	{ .number = 1005, .pid = 4242, .begin_ts_ns = FIX_T0 + 1500000000,
	  .at = { [MARK_STEP] = { FIX_T0 + 2900000000, 12345678, 100000000 } } },
};

static struct report_mark fix_marks[] = {
	{ { FIX_T0 + 1000000000, 9000000, 12345678 }, 0, 4242, 4242, MARK_FW_START },
	{ { FIX_T0 + 1234567890, 123000000, 123456789 }, 0, 4242, 4243, MARK_FW_BW_BOUNDARY },
	{ { FIX_T0 + 1500000000, 12345678, 123000000 }, 1004, 4242, 4242, MARK_STEP },
	{ { FIX_T0 + 2900000000, 12345678, 100000000 }, 1005, 4242, 4242, MARK_STEP },
};

static char *fix_labels[] = { "RANK=3", "WORLD_SIZE=8" };

static struct report_proc fix_procs[] = {
	{ .pid = 4242, .ppid = 1, .comm = "python", .cmdline = "python train.py --epochs 3", .labels = fix_labels,
	  .labels_cnt = 2, .live = 12345678, .peak = 123456789, .peak_ts_ns = FIX_T0 + 1234567890, .allocs = 123400,
	  .frees = 123300, .rss = { 90 << 20, 400 << 20, 0, 1 << 20 }, .rss_total = 491ull << 20,
	  .rss_peak = 512ull << 20, .mapped = 64 << 20, .cpu_ns = 2800000000ull },
	{ .pid = 4250, .ppid = 4242, .comm = "pt_data_worker", .cmdline = "python train.py", .allocs = 56, .frees = 50,
	  .peak = 4096, .rss_peak = 200ull << 20, .gone = 1, .exit_status = 9, .how = 2 },
};

static struct report_block fix_blocks[] = {
	{ .id = 7, .ptr = 0x7f0000001000, .size = 60ull << 30, .allocated_ts_ns = FIX_T0 + 1000000000, .op = "aten::addmm",
	  .region = "Forward", .pid = 4242, .tid = 4243, .dev = MT_DEV_CUDA0 + 1, .has_stream = 1, .stream = 0x5e3f0010 },
	{ .id = 9, .ptr = 0x7f0000009000, .size = 100000000, .allocated_ts_ns = FIX_T0 + 1234000000,
	  .freed_ts_ns = FIX_T0 + 1300000000, .op = "", .region = NULL, .pid = 4242, .tid = 4242, .dev = MT_DEV_CPU,
	  .cat = CAT_PARAMETER },
};

static struct report_cover fix_covers[] = {
	{ 4242, "framework", 3, 3 }, { 4242, "ops", 3015, 3014 }, { 4250, "framework", 3, 3 }, { 4242, "kernel", 3, 3 },
};

static struct report_symbol fix_symbols[] = {
	{ (char *)"aten::empty_strided", 1, 1, 1, 60000 },
	{ (char *)"c10::ProfiledCPUMemoryReporter::New", 0, 1, 1, 1234 },
	{ (char *)"aten::add", 1, 3, 2, 40 },
	{ (char *)"aten::broken", 1, 2, 0, 0 },
	{ (char *)"aten::never_called", 1, 1, 1, 0 },
};
static struct report_recompile fix_recompiles[] = {
	{ .ts_ns = FIX_T0 - 1000000, .ns = 812000000, .pid = 4242, .before = 1, .id = (char *)"0/1",
	  .function = (char *)"forward (train.py:36)", .failed = (char *)"",
	  .reason = (char *)"tensor 'x' size mismatch at index 0. expected 8, actual 9" },
	{ .ts_ns = FIX_T0 + 500000000, .ns = 310000000, .step = 412, .live = 1 << 20, .added = 1288490188, .pid = 4242,
	  .knows_bytes = 1, .id = (char *)"0/2", .function = (char *)"forward (train.py:36)", .failed = (char *)"",
	  .reason = (char *)"tensor 'x' size mismatch at index 0. expected 9, actual 10" },
	{ .ts_ns = FIX_T0 + 900000000, .ns = 11000000, .pid = 4242, .knows_bytes = 1, .live = 5, .id = (char *)"0/3",
	  .function = (char *)"", .reason = (char *)"", .failed = (char *)"Dynamo recompile limit exceeded" },
};
static struct report_recompile_why fix_whys[] = {
	{ 2, 310000000, 1288490188, &fix_recompiles[1] }, { 1, 11000000, 0, &fix_recompiles[2] },
};
static struct report_place fix_places[] = {
	{ 3ull << 30, 96, (char *)"inductor: extern_kernels.mm (aten.view, aten.t, aten.mm)",
	  (char *)"buf7 float32[512,512], then buf8", (char *)"view_34, linear_11, mm_3", (char *)"c5tz3y4.py:860",
	  EV_PLACE_FORWARD | EV_PLACE_OUTPUT },
	{ 96 << 20, 12, (char *)"inductor: cpp_fused_native_layer_norm_backward_0", (char *)"buf2 bfloat16[64]", (char *)"",
	  (char *)"", EV_PLACE_BACKWARD },
	{ 4096, 1, (char *)"inductor: (not known)", (char *)"", (char *)"", (char *)"", 0 },
};
static struct report_leak fix_leaks[] = {
	{ .op = "aten::tanh", .region = "epoch 1", .pid = 4242, .dev = MT_DEV_CUDA0 + 1, .cat = CAT_ACTIVATION, .per_step = 1,
	  .sure = SURE_HIGH, .bytes_slope = 12345678.4, .blocks_slope = 2, .tau = 1, .live = 20ull << 30, .blocks = 2010,
	  .grown = 15ull << 30, .grown_blocks = 1500, .first_ts_ns = FIX_T0 + 1000, .last_ts_ns = FIX_T0 + 2900000000,
	  .history = { 0, 1ull << 30, 2ull << 30 }, .history_cnt = 3 },
	{ .op = "", .region = "", .pid = 4250, .dev = MT_DEV_HOST, .sure = SURE_LOW, .bytes_slope = 999.5,
			.blocks_slope = 0.333333,
	  .tau = 0.75, .live = 4096, .blocks = 12, .grown = 2048, .grown_blocks = 6, .first_ts_ns = FIX_T0,
			.last_ts_ns = FIX_T0 },
};

static char *fix_notes[] = {
	"libtorch_cuda.so is not mapped: device memory is not visible.",
	"1 of 3015 operator probes could not be set (the kernel said: Invalid argument), so what that operator allocates "
	"shows under its caller.",
};

static struct report_saved_proc fix_saved[] = {
	{ .pid = 4242, .passes = 34, .ts_ns = 2000000000ull, .live = 9 << 20, .bytes = 5 << 20, .cnt = 44,
	  .last_bytes = 4 << 20 },
	{ .pid = 4243, .passes = 2, .ts_ns = 1500000000ull, .live = 3 << 20, .bytes = 1 << 20, .cnt = 3, .rest_bytes = 4096,
	  .rest_cnt = 2, .last_bytes = 1 << 20 },
};

static struct report_saved_row fix_saved_rows[] = {
	{ .pid = 4242, .dev = MT_DEV_CPU, .has_module = 1, .modules = 12, .module = "layers.*.linear1", .root = "Net",
	  .class = "Linear", .recompute = "layers.*", .op = "aten::addmm", .region = "", .node = "GeluBackward0",
	  .bytes = 3 << 20, .cnt = 12, .largest = 1 << 18 },
	{ .pid = 4242, .dev = MT_DEV_CPU, .has_module = 1, .modules = 1, .module = "", .root = "Net", .class = "Net", .op = "",
	  .region = "", .node = "autograd node", .bytes = 2 << 20, .cnt = 32, .largest = 1 << 19 },
	{ .pid = 4243, .dev = MT_DEV_CUDA0, .class = "", .op = "", .region = "enumerate(DataLoader)#next",
	  .node = "MmBackward0", .bytes = (1 << 20) - 4096, .cnt = 1, .largest = (1 << 20) - 4096 },
};

static struct report_saved_block fix_saved_blocks[] = {
	{ .ptr = 0x7f0000001000, .size = 1 << 19,
	  .of = { .pid = 4242, .dev = MT_DEV_CPU, .class = "Net", .op = "", .region = "", .node = "autograd node" } },
};

static struct report fix_report(void)
{
	struct report r = {
		.run.start_ts_ns = FIX_T0,
		.run.end_ts_ns = FIX_T0 + 3000000000ull,
		.run.epoch_off_ns = FIX_EPOCH_OFF,
		.run.host = "memtrace 0.1.0, Linux 6.18.44, box",
		.run.pid = 4242,
		.run.comm = "python",
		.run.cmdline = "python train.py --epochs 3",
		.run.ended = 1,
		.run.events = { [MT_EV_ALLOC] = 123533, [MT_EV_FREE] = 123441, [MT_EV_OP] = 530512, [EV_BEGIN] = 1 },
		.probes.covers = fix_covers,
		.probes.covers_cnt = 4,
		.probes.symbols = fix_symbols,
		.probes.symbols_cnt = 5,
		.run.notes = fix_notes,
		.run.notes_cnt = 2,
		.cost.programs = { [MT_PROG_FW_NEW] = { 123533, 111179700 }, [MT_PROG_OP] = { 530512, 583563200 } },
		.cost.hits = 654045,
		.cost.ns = 694742900,
		.cost.target_cpu_ns = 2800000000ull,
		.cost.share = 0.248123,
		.cost.share_most = 0.318687,
		.cost.self_rss = 34ull << 20,
		.cost.self_cpu_ns = 290000000,
		.devs = fix_devs,
		.devs_cnt = 3,
		.ops.rows = fix_ops,
		.ops.cnt = 5,
		.ops.total = 84,
		.regions.rows = fix_regions,
		.regions.cnt = 2,
		.regions.total = 2,
		.ops.none = { .name = "", .alloc_count = 12, .alloc_bytes = 4096, .at_peak = 64 },
		.procs = fix_procs,
		.procs_cnt = 2,
		.peak_blocks.rows = fix_blocks,
		.peak_blocks.cnt = 2,
		.kernel.rss = { fix_rss, 2, 1000000000 },
		.marks.steps_total = 1005,
		.saved.procs = fix_saved,
		.saved.procs_cnt = 2,
		.saved.rows = fix_saved_rows,
		.saved.cnt = 3,
		.saved.total = 5,
		.saved.blocks = fix_saved_blocks,
		.saved.blocks_cnt = 1,
		.marks.steps = fix_steps,
		.marks.steps_cnt = 2,
		.marks.rows = fix_marks,
		.marks.cnt = 4,
		.marks.total = 2500,
		.marks.by_kind = { 0, 748, 747, 1005 },
		.classes = CLASSES_EXTENDED,
		.has_flow = 1,
		.leaks = { .per_step = 1, .ticks = 1004, .ticks_least = 10, .not_watched = 7, .rows = fix_leaks, .cnt = 2,
				.total = 5 },
		.compiles = { .cnt = 12, .ns = 900000000, .again = 2, .again_ns = 321000000, .again_before = 1,
			      .added = 1288490188, .missed = 3, .rows = fix_recompiles, .rows_cnt = 3, .whys = fix_whys,
			      .whys_cnt = 2 },
		.places = { fix_places, 3, 5 },
		.ooms.rows = { fix_ooms[0], fix_ooms[1] },
		.ooms.cnt = 2,
		.ooms.total = 5,
		.driver.pools = fix_pools, .driver.pools_cnt = 2,
		.driver.unknown = { [MT_SEG_PINNED] = { .live = 64 << 20, .peak = 128 << 20, .allocs = 4, .frees = 2 },
			     [MT_SEG_RESERVED] = { .live = 1ull << 40, .peak = 1ull << 40, .allocs = 1 } },
		.flow = { .nodes = 530000, .edges = 1234567, .versions = 8040, .replays = 1, .input_stale = 2,
			  .by_class = { [MT_CLASS_UNKNOWN] = 3, [MT_CLASS_SPARSE] = 40 }, .moved = 5 },
	};

	fix_procs[0].highest_step = fix_steps[0];
	return r;
}

/* Nothing seen, nothing known, cut at once. */
static inline struct report fix_empty(void)
{
	return (struct report){ 0 };
}

/* Every string from a target that means harm, every loss there is. */
static inline struct report fix_hostile(void)
{
	static struct report_op ops[1];
	static struct report_proc procs[2];
	static struct report_block blocks[1];
	static struct report_tensor tensors[1];
	static struct report_cover covers[1];
	static struct report_leak leaks[1];
	static struct report_recompile again[1];
	static struct report_place place;
	static struct report_recompile_why whys[1] = { { UINT64_MAX, UINT64_MAX, UINT64_MAX, again } };
	static struct report_mark marks[2];
	static struct step_marks steps[2];
	static struct report_saved_proc saved[1];
	static struct report_saved_row saved_rows[1];
	static struct report_saved_block saved_blocks[1];
	static char *texts[1] = { HOSTILE };
	struct report r = fix_report();

	ops[0] = (struct report_op){ .name = HOSTILE, .live = UINT64_MAX, .at_peak = UINT64_MAX, .count = UINT64_MAX,
				     .alloc_bytes = UINT64_MAX, .alloc_count = UINT64_MAX };
	procs[0] = procs[1] = (struct report_proc){ .comm = HOSTILE, .cmdline = HOSTILE, .labels = texts,
						    .labels_cnt = 1, .rss_total = UINT64_MAX / 2 };
	blocks[0] = (struct report_block){ .op = HOSTILE, .region = HOSTILE, .dev = 255, .cat = 255, .size = UINT64_MAX,
					   .name = HOSTILE };
	tensors[0] = (struct report_tensor){ .path = HOSTILE, .root = HOSTILE, .type = HOSTILE, .key = HOSTILE, .kind = 255,
					     .dev = 255, .cat = 255, .size = UINT64_MAX };
	for (unsigned i = 0; i < 2; i++) {
		marks[i] = (struct report_mark){ { UINT64_MAX * i, UINT64_MAX, UINT64_MAX }, UINT64_MAX, i, 0, 255 };
		steps[i] = (struct step_marks){ .number = UINT64_MAX, .begin_ts_ns = UINT64_MAX, .pid = i };
		memset(steps[i].at, 255, sizeof(steps[i].at));
	}
	saved[0] = (struct report_saved_proc){ 1, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
					       UINT64_MAX, UINT64_MAX };
	saved_rows[0] = (struct report_saved_row){ .module = HOSTILE, .root = HOSTILE, .class = HOSTILE, .op = HOSTILE,
						   .region = HOSTILE, .node = HOSTILE, .dev = 255, .bytes = UINT64_MAX,
						   .modules = UINT32_MAX, .cnt = UINT64_MAX, .largest = UINT64_MAX };
	saved_blocks[0] = (struct report_saved_block){ UINT64_MAX, UINT64_MAX, saved_rows[0] };
	r.saved.procs = saved;
	r.saved.rows = saved_rows;
	r.saved.blocks = saved_blocks;
	r.saved.procs_cnt = r.saved.cnt = r.saved.total = r.saved.blocks_cnt = 1;
	marks[1].kind = MARK_STEP;
	r.marks.rows = marks;
	r.marks.steps = steps;
	r.marks.cnt = r.marks.steps_cnt = 2;
	procs[0].highest_step = steps[1];
	r.names.rows = tensors;
	r.names.cnt = r.names.total = 1;
	covers[0] = (struct report_cover){ 1, HOSTILE, 2, 1 };
	r.run.comm = r.run.cmdline = r.run.host = HOSTILE;
	r.ops.rows = r.regions.rows = ops;
	r.ops.cnt = r.ops.total = r.regions.cnt = r.regions.total = 1;
	r.procs = procs;
	r.procs_cnt = 2;
	r.peak_blocks.rows = blocks;
	r.peak_blocks.cnt = 1;
	r.probes.covers = covers;
	r.probes.covers_cnt = 1;
	r.run.notes = texts;
	r.run.notes_cnt = 1;
	r.run.ended = 0;
	r.ooms.rows[0].comm = r.ooms.rows[0].op = r.ooms.rows[0].api = HOSTILE;
	r.ooms.rows[0].module = r.ooms.rows[0].root = HOSTILE;
	r.ooms.rows[0].phase = 255;
	r.ooms.rows[0].blocks[0].op = r.ooms.rows[0].ops[0].name = HOSTILE;
	r.ooms.rows[0].blocks[0].cat = 255;
	leaks[0] = (struct report_leak){ .op = HOSTILE, .region = HOSTILE, .dev = 255, .cat = 255, .sure = 255,
			.bytes_slope = 1e300,
					 .blocks_slope = -1e300, .live = UINT64_MAX, .blocks = UINT64_MAX };
	r.leaks.rows = leaks;
	r.leaks.cnt = 1;
	again[0] = (struct report_recompile){ .ts_ns = UINT64_MAX, .ns = UINT64_MAX, .step = UINT64_MAX, .added = UINT64_MAX,
					      .knows_bytes = 1, .id = HOSTILE, .function = HOSTILE, .reason = HOSTILE,
					      .failed = HOSTILE };
	r.compiles = (struct report_compiles){ .cnt = UINT64_MAX, .ns = UINT64_MAX, .again = UINT64_MAX, .again_ns = UINT64_MAX,
					       .missed = UINT64_MAX, .added = UINT64_MAX, .rows = again, .rows_cnt = 1,
					       .whys = whys, .whys_cnt = 1 };
	place = (struct report_place){ UINT64_MAX, UINT64_MAX, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 255 };
	r.places = (struct report_places){ &place, 1, UINT64_MAX };
	r.ooms.rows[1].comm = HOSTILE;
	r.ooms.cnt = 2;
	for (unsigned i = 0; i < MT_LOSS_MAX; i++)
		r.run.lost[i] = i;
	return r;
}

#endif
