/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * stub: what the stand-ins for libcudart, libcuda and libnccl share, so that the memory API of a GPU can be
 * tested without one. Memory is a mapping that nobody touches, so gigabytes cost nothing. Each call says
 * what it did in one line of JSON, the truth that memtrace's events are held against:
 *
 *   {"fn":"cudaMalloc","tid":1,"depth":0,"ret":0,"addr":4096,"size":512,"aux":0,"dev":0,"comm":0}
 *
 * depth: calls of the API that this one is inside of. dev: the thread's device, or that of the memory where
 * the call says it; -1: none. comm: inside of a call that makes or ends a communicator (which is no depth), or of
 * NCCL's own thread. The lines are written at the return, under a lock, in one write each.
 *
 * In the environment: MT_STUB_LOG (file; none: silent), MT_STUB_TOTAL (bytes of a device, default 400 MiB),
 * MT_STUB_LIMIT (bytes given out, default the same), MT_STUB_DEVICES (2), MT_STUB_TOUCH (1: a device's memory may be
 * read and written, for torch_backend.cpp).
 */
#ifndef MT_GPU_STUB_H
#define MT_GPU_STUB_H

#include <stddef.h>
#include <stdint.h>

#define OK 0
#define INVALID 1 /* cudaErrorInvalidValue, CUDA_ERROR_INVALID_VALUE */
#define NO_MEMORY 2

#define SHARED __attribute__((visibility("default"))) /* of libcuda, for the two others */
#ifndef API
#define API __attribute__((visibility("default")))
#endif

/* One call in progress, on the stack of the function. */
struct stub_call {
	const char *fn;
	uint64_t addr, size, aux;
	int dev;
};

/* All in libcuda's stub, which the others need. */
SHARED void stub_enter(struct stub_call *c, const char *fn);
SHARED int stub_leave(struct stub_call *c, int ret);
SHARED void stub_mark_comm(int inside), stub_depth(int by); /* +1, -1 */
SHARED int *stub_device(void);	   /* of the thread */
SHARED int stub_devices(void);
SHARED uint64_t stub_total(void);
SHARED uint64_t stub_used(int dev);
/* Bytes on a device: mapped and counted against its limit. NULL: no memory. */
SHARED void *stub_map(uint64_t size, int dev);
SHARED int stub_unmap(void *ptr);	   /* 0, or INVALID: not one of ours */
SHARED uint64_t stub_handle(uint64_t size, int dev); /* memory without an address; 0: no memory */
SHARED int stub_drop(uint64_t handle);
SHARED uint64_t stub_size_of(uint64_t ptr_or_handle);
SHARED void stub_drop_all(int dev);   /* device reset, context destroyed */
SHARED void *stub_reserve(uint64_t size);

extern SHARED void (*stub_inside)(void); /* called by what gives memory, in the middle */

#define CALL(name) \
	struct stub_call call; \
	stub_enter(&call, name)
#define LEAVE(ret) return stub_leave(&call, ret)

#endif
