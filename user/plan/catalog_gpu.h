/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* catalog_gpu: the table of the GPUs' memory API; private to plan/, and to the tests that compare it with libraries. */
#ifndef MT_PLAN_CATALOG_GPU_H
#define MT_PLAN_CATALOG_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "memtrace/event.h"

/* Libraries in which a name was looked up (nm -D); a row with none is from headers only. */
enum gpu_seen {
	GPU_SEEN_CUDART_12 = 1, /* libcudart.so.12 of CUDA 12.9 */
	GPU_SEEN_CUDART_13 = 2, /* libcudart.so.13 of CUDA 13.0 */
	GPU_SEEN_CUDA_535 = 4,	/* libcuda.so.535.261.03 */
	GPU_SEEN_NCCL_2_28 = 8, /* libnccl.so.2 2.28.9 */
	GPU_SEEN_HIP_5_2 = 16,	/* libamdhip64.so.5 of ROCm 5.2.3 */
	/* libc10_cuda.so of torch 2.13.0, built for CUDA 13 (.symtab); 2.4.1 to 2.15.0 have the same names but one */
	GPU_SEEN_TORCH_2_13 = 32,
};

struct gpu_row {
	const char *lib; /* where it usually is */
	const char *symbol;
	unsigned seen; /* enum gpu_seen */
	struct mt_seg_spec spec;
};

/* All rows, which are constant; returns how many. */
size_t gpu_rows(const struct gpu_row **ret);

#endif
