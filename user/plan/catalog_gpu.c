/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The memory API of GPUs as a table: a row has what a function does to memory and where its pointer, size, handle and device
 * are. One pair of BPF programs (bpf/cuda.bpf.c) interprets the rows.
 *
 * A function is looked for in every mapped file, its library's name is for people: programs that nvcc links contain the runtime
 * (libcudart_static), and so does libnccl; there the functions are local symbols, found in .symtab unless it was stripped, and
 * the driver's below them always.
 *
 * Entries of the driver (535) are `cmpl; je; jmp`: the planner takes the je, where the registers and the stack are still as the
 * caller left them. Those of the runtime (12.9, 13.0), NCCL and HIP begin with push.
 *
 * What a call does not contain is left out and listed in docs/gpu.md: cuGraphAddNode with a node of memory, sparse arrays
 * (cuMemMapArrayAsync), multicast objects, which are no memory themselves.
 */
#include "plan/catalog_gpu.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "plan/builder.h"

/* Arguments: the integer registers by number, or words of the stack where structures are passed by value. */
#define STACK(k) (16 + (k))
#define ARG(n)		{ .form = MT_SEG_ARG, .where = (n), .bytes = 8 }
#define INT(n)		{ .form = MT_SEG_ARG, .where = (n), .bytes = 4 }
#define COUNT(n)	{ .form = MT_SEG_ARG, .where = (n), .bytes = 8, .as = MT_SEG_COUNT }
#define INT_AS(n, what) { .form = MT_SEG_ARG, .where = (n), .bytes = 4, .as = MT_SEG_##what }
#define OUT(n)		{ .form = MT_SEG_OUT, .where = (n), .bytes = 8 }
#define OUT_AT(n, at)	{ .form = MT_SEG_OUT, .where = (n), .bytes = 8, .off = (at) }
#define IN_AT(n, at)	{ .form = MT_SEG_IN, .where = (n), .bytes = 8, .off = (at) }
#define IN_COUNT(n, at) { .form = MT_SEG_IN, .where = (n), .bytes = 8, .off = (at), .as = MT_SEG_COUNT }
#define IN_INT(n, at, what) { .form = MT_SEG_IN, .where = (n), .bytes = 4, .off = (at), .as = MT_SEG_##what }
#define CHANNELS(n)	{ .form = MT_SEG_IN, .where = (n), .bytes = 8, .as = MT_SEG_CHANNELS }
#define SIZE(...)	.size = { __VA_ARGS__ }

#define DOES(does, what, dev_of, ...) \
	{ .kind = MT_EV_SEG_##does, .seg = MT_SEG_##what, .whose = MT_SEG_DEV_##dev_of, __VA_ARGS__ }

/* (T **out, size_t size, …) and (ptr) */
#define GIVES(what, dev_of)	   DOES(ALLOC, what, dev_of, .addr = OUT(0), SIZE(ARG(1)))
#define GIVES_ASYNC(dev_of, aux_at) DOES(ALLOC, ASYNC, dev_of, .addr = OUT(0), .aux = ARG(aux_at), SIZE(ARG(1)))
#define TAKES(what)		   DOES(FREE, what, NONE, .addr = ARG(0))
#define TAKES_ASYNC		   DOES(FREE, ASYNC, NONE, .addr = ARG(0), .aux = ARG(1))
#define REGISTERS		   DOES(ALLOC, REGISTERED, NONE, .addr = ARG(0), SIZE(ARG(1)))
/* (T **out, size_t *pitch, size_t width, size_t height) */
#define GIVES_PITCHED DOES(ALLOC, DEVICE, THREAD, .addr = OUT(0), .asked = ARG(2), SIZE(OUT(1), ARG(3)))
/* (cudaPitchedPtr *out, cudaExtent by value) */
#define GIVES_3D                                                                                         \
	DOES(ALLOC, DEVICE, THREAD, .addr = OUT(0), .asked = ARG(STACK(0)),                               \
	     SIZE(OUT_AT(0, 8), ARG(STACK(1)), ARG(STACK(2))))
/* (array *out, cudaChannelFormatDesc const *, width, height) and (…, cudaExtent by value, levels, flags) */
#define GIVES_ARRAY    DOES(ALLOC, ARRAY, THREAD, .addr = OUT(0), SIZE(COUNT(2), COUNT(3), CHANNELS(1)))
#define EXTENT	       COUNT(STACK(0)), COUNT(STACK(1)), COUNT(STACK(2))
#define GIVES_3D_ARRAY DOES(ALLOC, ARRAY, THREAD, .addr = OUT(0), SIZE(EXTENT, CHANNELS(1)))
#define GIVES_MIPMAP                                                                                      \
	DOES(ALLOC, ARRAY, THREAD, .addr = OUT(0),                                                        \
	     SIZE(EXTENT, CHANNELS(1), INT_AS(2, LEVELS), INT_AS(3, LAYERED)))
/* (array *out, CUDA_ARRAY_DESCRIPTOR const *): width, height, format, channels */
#define GIVES_CU_ARRAY                                                                                    \
	DOES(ALLOC, ARRAY, THREAD, .addr = OUT(0),                                                        \
	     SIZE(IN_COUNT(1, 0), IN_COUNT(1, 8), IN_INT(1, 16, FORMAT), IN_INT(1, 20, PLAIN)))
/* … CUDA_ARRAY3D_DESCRIPTOR const *: width, height, depth, format, channels, flags */
#define DESC_3D                                                                                           \
	IN_COUNT(1, 0), IN_COUNT(1, 8), IN_COUNT(1, 16), IN_INT(1, 24, FORMAT), IN_INT(1, 28, PLAIN)
#define GIVES_CU_3D_ARRAY DOES(ALLOC, ARRAY, THREAD, .addr = OUT(0), SIZE(DESC_3D))
#define GIVES_CU_MIPMAP                                                                                   \
	DOES(ALLOC, ARRAY, THREAD, .addr = OUT(0), SIZE(DESC_3D, INT_AS(2, LEVELS), IN_INT(1, 32, LAYERED)))
/* (handle *out, size, prop const *: location at 8, flags) */
#define CREATES                                                                                           \
	DOES(ALLOC, PHYSICAL, LOCATION, .addr = OUT(0), .dev = IN_AT(2, 8), SIZE(ARG(1)))
/* (handle *out, …): one more reference, of unknown size */
#define REFERS(what) DOES(ALLOC, what, NONE, .addr = OUT(0))
/* (ptr, size, offset, handle, flags) and (ptr, size) */
#define MAPS	 DOES(MAP, PHYSICAL, NONE, .addr = ARG(0), .aux = ARG(3), SIZE(ARG(1)))
#define UNMAPS	 DOES(UNMAP, PHYSICAL, NONE, .addr = ARG(0), SIZE(ARG(1)))
#define UNRESERVES DOES(FREE, RESERVED, NONE, .addr = ARG(0), SIZE(ARG(1)))
/* (T **out, handle by value, flags): the size is known only in the other process */
#define OPENS DOES(ALLOC, IMPORTED, THREAD, .addr = OUT(0))
/* (handle *out, desc const *: size at 24) and (T **out, handle, desc const *: size at 8) */
#define IMPORTS	     DOES(ALLOC, IMPORTED, THREAD, .addr = OUT(0), SIZE(IN_AT(1, 24)))
#define MAPS_IMPORTED DOES(MAP, IMPORTED, NONE, .addr = OUT(0), .aux = ARG(1), SIZE(IN_AT(2, 8)))
/* (node *, graph, deps, n, params *: location at 8, size at 104, pointer comes back at 112) and (…, ptr) */
#define ADDS_ALLOC_NODE                                                                                   \
	DOES(ALLOC, GRAPH, LOCATION, .addr = OUT_AT(4, 112), .aux = ARG(1), .dev = IN_AT(4, 8), SIZE(IN_AT(4, 104)))
#define ADDS_FREE_NODE DOES(FREE, GRAPH, NONE, .addr = ARG(4))
#define TRIMS_GRAPHS   DOES(TRIM, GRAPH, ARG, .dev = INT(0))
#define TRIMS	       DOES(TRIM, ASYNC, NONE, .addr = ARG(0), SIZE(ARG(1)))
#define ENDS_POOL      DOES(TRIM, ASYNC, NONE, .addr = ARG(0))
/* the flags of a RESET are where others have their kind of segment */
#define RESETS(maybe, dev_of, ...) \
	{ .kind = MT_EV_SEG_RESET, .seg = (maybe), .whose = MT_SEG_DEV_##dev_of, __VA_ARGS__ }
#define SETS_DEVICE { .sets = MT_SEG_SETS_DEVICE, .whose = MT_SEG_DEV_ARG, .dev = INT(0) }
/* Communicators: OUT where one is returned, ARG where it is passed; (comms *out, int n, …) makes several. */
#define IN_COMM(what, ...)                                                                                \
	{ .kind = MT_EV_SEG_COMM, .seg = MT_COMM_##what, .sets = MT_SEG_SETS_COMM, .whose = MT_SEG_DEV_THREAD,     \
	  __VA_ARGS__ }
#define GRAPH(what, ...) { .kind = MT_EV_SEG_GRAPH, .seg = MT_GRAPH_##what, __VA_ARGS__ }
#define CAPTURES     GRAPH(CAPTURES, .addr = ARG(0))
#define CAPTURED     GRAPH(CAPTURED, .addr = OUT(1), .aux = ARG(0))
#define INSTANTIATES GRAPH(INSTANTIATED, .addr = OUT(0), .aux = ARG(1))
#define LAUNCHES     GRAPH(LAUNCHED, .addr = ARG(0))
/*
 * The caching allocator's private pools: (this, signed char device, pair of numbers by value, …). Its classes are hidden, so
 * their functions are only in .symtab; they have no result.
 */
#define POOL(what)                                                                                                \
	{ .kind = MT_EV_SEG_GRAPH, .seg = MT_GRAPH_POOL_##what, .whose = MT_SEG_DEV_ARG, .sets = MT_SEG_AT_ENTRY,  \
	  .addr = ARG(3), .dev = INT(1), SIZE(ARG(2)) }
/* (pool *out, props const *: location at 8) and (pool *out, device) */
#define MAKES_POOL { .kind = MT_EV_SEG_POOL, .whose = MT_SEG_DEV_LOCATION, .addr = OUT(0), .dev = IN_AT(1, 8) }
#define SAYS_POOL  { .kind = MT_EV_SEG_POOL, .whose = MT_SEG_DEV_ARG, .addr = OUT(0), .dev = INT(1) }
/* Events: only those count that the caching allocator records when it takes a block back. */
#define STREAM(what) { .kind = MT_EV_STREAM, .seg = MT_STREAM_##what, .addr = ARG(0) }
#define SETS_CONTEXT(addr_at) { .sets = MT_SEG_SETS_CONTEXT, .addr = addr_at }
#define MAKES_CONTEXT(dev_at) \
	{ .sets = MT_SEG_SETS_CONTEXT, .whose = MT_SEG_DEV_ARG, .addr = OUT(0), .dev = INT(dev_at) }

#define C10  "libc10_cuda.so"
#define NATIVE(fn) "_ZN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocator" fn
#define RT   "libcudart.so"
#define DRV  "libcuda.so.1"
#define NCCL_LIB "libnccl.so.2"
#define HIP  "libamdhip64.so"

#define RBOTH	(GPU_SEEN_CUDART_12 | GPU_SEEN_CUDART_13)
#define D535	GPU_SEEN_CUDA_535
#define N228	GPU_SEEN_NCCL_2_28
#define T213	GPU_SEEN_TORCH_2_13
#define H5	GPU_SEEN_HIP_5_2
#define NOWHERE 0

static const struct gpu_row rows[] = {
	{ RT, "cudaMalloc", RBOTH, GIVES(DEVICE, THREAD) },
	{ RT, "cudaMallocPitch", RBOTH, GIVES_PITCHED },
	{ RT, "cudaMalloc3D", RBOTH, GIVES_3D },
	{ RT, "cudaMallocArray", RBOTH, GIVES_ARRAY },
	{ RT, "cudaMalloc3DArray", RBOTH, GIVES_3D_ARRAY },
	{ RT, "cudaMallocMipmappedArray", RBOTH, GIVES_MIPMAP },
	{ RT, "cudaMallocManaged", RBOTH, GIVES(MANAGED, THREAD) },
	{ RT, "cudaMallocHost", RBOTH, GIVES(PINNED, NONE) },
	{ RT, "cudaHostAlloc", RBOTH, GIVES(PINNED, NONE) },
	{ RT, "cudaHostRegister", RBOTH, REGISTERS },
	{ RT, "cudaMallocAsync", RBOTH, GIVES_ASYNC(THREAD, 2) },
	{ RT, "cudaMallocAsync_ptsz", RBOTH, GIVES_ASYNC(THREAD, 2) },
	{ RT, "cudaMallocFromPoolAsync", RBOTH, GIVES_ASYNC(NONE, 2) },
	{ RT, "cudaMallocFromPoolAsync_ptsz", RBOTH, GIVES_ASYNC(NONE, 2) },
	{ RT, "cudaFree", RBOTH, TAKES(DEVICE) },
	{ RT, "cudaFreeArray", RBOTH, TAKES(ARRAY) },
	{ RT, "cudaFreeMipmappedArray", RBOTH, TAKES(ARRAY) },
	{ RT, "cudaFreeHost", RBOTH, TAKES(PINNED) },
	{ RT, "cudaHostUnregister", RBOTH, TAKES(REGISTERED) },
	{ RT, "cudaFreeAsync", RBOTH, TAKES_ASYNC },
	{ RT, "cudaFreeAsync_ptsz", RBOTH, TAKES_ASYNC },
	{ RT, "cudaMemPoolTrimTo", RBOTH, TRIMS },
	{ RT, "cudaMemPoolDestroy", RBOTH, ENDS_POOL },
	{ RT, "cudaDeviceGraphMemTrim", RBOTH, TRIMS_GRAPHS },
	{ RT, "cudaGraphAddMemAllocNode", RBOTH, ADDS_ALLOC_NODE },
	{ RT, "cudaGraphAddMemFreeNode", RBOTH, ADDS_FREE_NODE },
	{ RT, "cudaIpcOpenMemHandle", RBOTH, OPENS },
	{ RT, "cudaIpcCloseMemHandle", RBOTH, TAKES(IMPORTED) },
	{ RT, "cudaImportExternalMemory", RBOTH, IMPORTS },
	{ RT, "cudaExternalMemoryGetMappedBuffer", RBOTH, MAPS_IMPORTED },
	{ RT, "cudaDestroyExternalMemory", RBOTH, TAKES(IMPORTED) },
	{ RT, "cudaDeviceReset", RBOTH, RESETS(0, THREAD) },
	{ RT, "cudaSetDevice", RBOTH, SETS_DEVICE },
	{ RT, "cudaMemPoolCreate", RBOTH, MAKES_POOL },
	{ RT, "cudaDeviceGetDefaultMemPool", RBOTH, SAYS_POOL },
	{ RT, "cudaDeviceGetMemPool", RBOTH, SAYS_POOL },
	{ RT, "cudaStreamBeginCapture", RBOTH, CAPTURES },
	{ RT, "cudaStreamBeginCapture_ptsz", RBOTH, CAPTURES },
	{ RT, "cudaStreamBeginCaptureToGraph", RBOTH, CAPTURES },
	{ RT, "cudaStreamBeginCaptureToGraph_ptsz", RBOTH, CAPTURES },
	{ RT, "cudaStreamEndCapture", RBOTH, CAPTURED },
	{ RT, "cudaStreamEndCapture_ptsz", RBOTH, CAPTURED },
	{ RT, "cudaGraphInstantiate", RBOTH, INSTANTIATES },
	{ RT, "cudaGraphInstantiateWithFlags", RBOTH, INSTANTIATES },
	{ RT, "cudaGraphInstantiateWithParams", RBOTH, INSTANTIATES },
	{ RT, "cudaGraphInstantiateWithParams_ptsz", RBOTH, INSTANTIATES },
	{ RT, "cudaGraphLaunch", RBOTH, LAUNCHES },
	{ RT, "cudaGraphLaunch_ptsz", RBOTH, LAUNCHES },
	{ RT, "cudaEventRecord", RBOTH, STREAM(WAITS) },
	{ RT, "cudaEventRecord_ptsz", RBOTH, STREAM(WAITS) },
	{ RT, "cudaEventQuery", RBOTH, STREAM(OVER) },
	{ RT, "cudaEventSynchronize", RBOTH, STREAM(OVER) },

	{ DRV, "cuMemAlloc_v2", D535, GIVES(DEVICE, THREAD) },
	{ DRV, "cuMemAllocPitch_v2", D535, GIVES_PITCHED },
	{ DRV, "cuMemAllocManaged", D535, GIVES(MANAGED, THREAD) },
	{ DRV, "cuMemAllocHost_v2", D535, GIVES(PINNED, NONE) },
	{ DRV, "cuMemHostAlloc", D535, GIVES(PINNED, NONE) },
	{ DRV, "cuMemHostRegister_v2", D535, REGISTERS },
	{ DRV, "cuMemAllocAsync", D535, GIVES_ASYNC(THREAD, 2) },
	{ DRV, "cuMemAllocAsync_ptsz", D535, GIVES_ASYNC(THREAD, 2) },
	{ DRV, "cuMemAllocFromPoolAsync", D535, GIVES_ASYNC(NONE, 2) },
	{ DRV, "cuMemAllocFromPoolAsync_ptsz", D535, GIVES_ASYNC(NONE, 2) },
	{ DRV, "cuArrayCreate_v2", D535, GIVES_CU_ARRAY },
	{ DRV, "cuArray3DCreate_v2", D535, GIVES_CU_3D_ARRAY },
	{ DRV, "cuMipmappedArrayCreate", D535, GIVES_CU_MIPMAP },
	{ DRV, "cuMemFree_v2", D535, TAKES(DEVICE) },
	{ DRV, "cuMemFreeHost", D535, TAKES(PINNED) },
	{ DRV, "cuMemHostUnregister", D535, TAKES(REGISTERED) },
	{ DRV, "cuMemFreeAsync", D535, TAKES_ASYNC },
	{ DRV, "cuMemFreeAsync_ptsz", D535, TAKES_ASYNC },
	{ DRV, "cuArrayDestroy", D535, TAKES(ARRAY) },
	{ DRV, "cuMipmappedArrayDestroy", D535, TAKES(ARRAY) },
	{ DRV, "cuMemPoolTrimTo", D535, TRIMS },
	{ DRV, "cuMemPoolDestroy", D535, ENDS_POOL },
	{ DRV, "cuDeviceGraphMemTrim", D535, TRIMS_GRAPHS },
	{ DRV, "cuGraphAddMemAllocNode", D535, ADDS_ALLOC_NODE },
	{ DRV, "cuGraphAddMemFreeNode", D535, ADDS_FREE_NODE },
	{ DRV, "cuMemCreate", D535, CREATES },
	{ DRV, "cuMemRelease", D535, TAKES(PHYSICAL) },
	{ DRV, "cuMemMap", D535, MAPS },
	{ DRV, "cuMemUnmap", D535, UNMAPS },
	{ DRV, "cuMemAddressReserve", D535, GIVES(RESERVED, NONE) },
	{ DRV, "cuMemAddressFree", D535, UNRESERVES },
	{ DRV, "cuMemRetainAllocationHandle", D535, REFERS(PHYSICAL) },
	{ DRV, "cuMemImportFromShareableHandle", D535, REFERS(IMPORTED) },
	{ DRV, "cuIpcOpenMemHandle_v2", D535, OPENS },
	{ DRV, "cuIpcCloseMemHandle", D535, TAKES(IMPORTED) },
	{ DRV, "cuImportExternalMemory", D535, IMPORTS },
	{ DRV, "cuExternalMemoryGetMappedBuffer", D535, MAPS_IMPORTED },
	{ DRV, "cuDestroyExternalMemory", D535, TAKES(IMPORTED) },
	{ DRV, "cuCtxCreate_v2", D535, MAKES_CONTEXT(2) },
	{ DRV, "cuCtxCreate_v3", D535, MAKES_CONTEXT(4) },
	{ DRV, "cuCtxCreate_v4", NOWHERE, MAKES_CONTEXT(3) },
	{ DRV, "cuCtxSetCurrent", D535, SETS_CONTEXT(ARG(0)) },
	{ DRV, "cuCtxPushCurrent_v2", D535, SETS_CONTEXT(ARG(0)) },
	{ DRV, "cuCtxPopCurrent_v2", D535, SETS_CONTEXT({ 0 }) },
	{ DRV, "cuCtxDestroy_v2", D535, RESETS(0, NONE, .addr = ARG(0)) },
	{ DRV, "cuDevicePrimaryCtxReset_v2", D535, RESETS(0, ARG, .dev = INT(0)) },
	{ DRV, "cuDevicePrimaryCtxRelease_v2", D535, RESETS(1, ARG, .dev = INT(0)) },

	{ DRV, "cuMemPoolCreate", D535, MAKES_POOL },
	{ DRV, "cuDeviceGetDefaultMemPool", D535, SAYS_POOL },
	{ DRV, "cuDeviceGetMemPool", D535, SAYS_POOL },
	{ DRV, "cuStreamBeginCapture_v2", D535, CAPTURES },
	{ DRV, "cuStreamBeginCapture_v2_ptsz", D535, CAPTURES },
	{ DRV, "cuStreamBeginCaptureToGraph", NOWHERE, CAPTURES },
	{ DRV, "cuStreamBeginCaptureToGraph_ptsz", NOWHERE, CAPTURES },
	{ DRV, "cuStreamEndCapture", D535, CAPTURED },
	{ DRV, "cuStreamEndCapture_ptsz", D535, CAPTURED },
	{ DRV, "cuGraphInstantiateWithFlags", D535, INSTANTIATES },
	{ DRV, "cuGraphInstantiateWithParams", D535, INSTANTIATES },
	{ DRV, "cuGraphInstantiateWithParams_ptsz", D535, INSTANTIATES },
	{ DRV, "cuGraphInstantiate_v2", D535, INSTANTIATES },
	{ DRV, "cuGraphLaunch", D535, LAUNCHES },
	{ DRV, "cuGraphLaunch_ptsz", D535, LAUNCHES },

	{ C10, NATIVE("19beginAllocateToPoolEaSt4pairIyyESt8functionIFbP11CUstream_stEE"), T213, POOL(BEGINS) },
	{ C10, NATIVE("17endAllocateToPoolEaSt4pairIyyE"), T213, POOL(ENDS) },
	{ C10, NATIVE("18createOrIncrefPoolEaSt4pairIyyESt10shared_ptrINS1_13CUDAAllocatorEE"), T213, POOL(USED) },
	{ C10, NATIVE("18createOrIncrefPoolEaSt4pairIyyEPNS1_13CUDAAllocatorE"), NOWHERE, POOL(USED) }, /* torch 2.8 */
	{ C10, NATIVE("11releasePoolEaSt4pairIyyE"), T213, POOL(LEFT) },

	{ NCCL_LIB, "ncclCommInitRank", N228, IN_COMM(MADE, .addr = OUT(0)) },
	{ NCCL_LIB, "ncclCommInitRankConfig", N228, IN_COMM(MADE, .addr = OUT(0)) },
	{ NCCL_LIB, "ncclCommInitRankScalable", N228, IN_COMM(MADE, .addr = OUT(0)) },
	{ NCCL_LIB, "ncclCommInitAll", N228, IN_COMM(MADE, .addr = OUT(0), SIZE(INT(1))) },
	{ NCCL_LIB, "ncclCommSplit", N228, IN_COMM(MADE, .addr = OUT(3)) },
	{ NCCL_LIB, "ncclCommShrink", N228, IN_COMM(MADE, .addr = OUT(3)) },
	{ NCCL_LIB, "ncclCommFinalize", N228, IN_COMM(USED, .addr = ARG(0)) },
	{ NCCL_LIB, "ncclCommDestroy", N228, IN_COMM(ENDED, .addr = ARG(0)) },
	{ NCCL_LIB, "ncclCommAbort", N228, IN_COMM(ENDED, .addr = ARG(0)) },
	{ NCCL_LIB, "ncclMemAlloc", N228, GIVES(NCCL, THREAD) },
	{ NCCL_LIB, "ncclMemFree", N228, TAKES(NCCL) },

	{ HIP, "hipMalloc", H5, GIVES(DEVICE, THREAD) },
	{ HIP, "hipExtMallocWithFlags", H5, GIVES(DEVICE, THREAD) },
	{ HIP, "hipMallocPitch", H5, GIVES_PITCHED },
	{ HIP, "hipMemAllocPitch", H5, GIVES_PITCHED },
	{ HIP, "hipMalloc3D", H5, GIVES_3D },
	{ HIP, "hipMallocArray", H5, GIVES_ARRAY },
	{ HIP, "hipMalloc3DArray", H5, GIVES_3D_ARRAY },
	{ HIP, "hipMallocMipmappedArray", H5, GIVES_MIPMAP },
	{ HIP, "hipArrayCreate", H5, GIVES_CU_ARRAY },
	{ HIP, "hipArray3DCreate", H5, GIVES_CU_3D_ARRAY },
	{ HIP, "hipMipmappedArrayCreate", H5, GIVES_CU_MIPMAP },
	{ HIP, "hipMallocManaged", H5, GIVES(MANAGED, THREAD) },
	{ HIP, "hipHostMalloc", H5, GIVES(PINNED, NONE) },
	{ HIP, "hipHostAlloc", H5, GIVES(PINNED, NONE) },
	{ HIP, "hipMallocHost", H5, GIVES(PINNED, NONE) },
	{ HIP, "hipMemAllocHost", H5, GIVES(PINNED, NONE) },
	{ HIP, "hipHostRegister", H5, REGISTERS },
	{ HIP, "hipMallocAsync", H5, GIVES_ASYNC(THREAD, 2) },
	{ HIP, "hipMallocFromPoolAsync", H5, GIVES_ASYNC(NONE, 2) },
	{ HIP, "hipFree", H5, TAKES(DEVICE) },
	{ HIP, "hipFreeArray", H5, TAKES(ARRAY) },
	{ HIP, "hipArrayDestroy", H5, TAKES(ARRAY) },
	{ HIP, "hipFreeMipmappedArray", H5, TAKES(ARRAY) },
	{ HIP, "hipMipmappedArrayDestroy", H5, TAKES(ARRAY) },
	{ HIP, "hipHostFree", H5, TAKES(PINNED) },
	{ HIP, "hipFreeHost", H5, TAKES(PINNED) },
	{ HIP, "hipHostUnregister", H5, TAKES(REGISTERED) },
	{ HIP, "hipFreeAsync", H5, TAKES_ASYNC },
	{ HIP, "hipMemPoolTrimTo", H5, TRIMS },
	{ HIP, "hipMemPoolDestroy", H5, ENDS_POOL },
	{ HIP, "hipDeviceGraphMemTrim", NOWHERE, TRIMS_GRAPHS },
	{ HIP, "hipGraphAddMemAllocNode", NOWHERE, ADDS_ALLOC_NODE },
	{ HIP, "hipGraphAddMemFreeNode", NOWHERE, ADDS_FREE_NODE },
	{ HIP, "hipMemCreate", H5, CREATES },
	{ HIP, "hipMemRelease", H5, TAKES(PHYSICAL) },
	{ HIP, "hipMemMap", H5, MAPS },
	{ HIP, "hipMemUnmap", H5, UNMAPS },
	{ HIP, "hipMemAddressReserve", H5, GIVES(RESERVED, NONE) },
	{ HIP, "hipMemAddressFree", H5, UNRESERVES },
	{ HIP, "hipMemRetainAllocationHandle", H5, REFERS(PHYSICAL) },
	{ HIP, "hipMemImportFromShareableHandle", H5, REFERS(IMPORTED) },
	{ HIP, "hipIpcOpenMemHandle", H5, OPENS },
	{ HIP, "hipIpcCloseMemHandle", H5, TAKES(IMPORTED) },
	{ HIP, "hipImportExternalMemory", H5, IMPORTS },
	{ HIP, "hipExternalMemoryGetMappedBuffer", H5, MAPS_IMPORTED },
	{ HIP, "hipDestroyExternalMemory", H5, TAKES(IMPORTED) },
	{ HIP, "hipDeviceReset", H5, RESETS(0, THREAD) },
	{ HIP, "hipDevicePrimaryCtxReset", H5, RESETS(0, ARG, .dev = INT(0)) },
	{ HIP, "hipDevicePrimaryCtxRelease", H5, RESETS(1, ARG, .dev = INT(0)) },
	{ HIP, "hipSetDevice", H5, SETS_DEVICE },
	{ HIP, "hipMemPoolCreate", H5, MAKES_POOL },
	{ HIP, "hipDeviceGetDefaultMemPool", H5, SAYS_POOL },
	{ HIP, "hipDeviceGetMemPool", H5, SAYS_POOL },
	{ HIP, "hipStreamBeginCapture", H5, CAPTURES },
	{ HIP, "hipStreamBeginCaptureToGraph", NOWHERE, CAPTURES },
	{ HIP, "hipStreamEndCapture", H5, CAPTURED },
	{ HIP, "hipGraphInstantiate", H5, INSTANTIATES },
	{ HIP, "hipGraphInstantiateWithFlags", H5, INSTANTIATES },
	{ HIP, "hipGraphInstantiateWithParams", NOWHERE, INSTANTIATES },
	{ HIP, "hipGraphLaunch", H5, LAUNCHES },
	{ HIP, "hipEventRecord", H5, STREAM(WAITS) },
	{ HIP, "hipEventQuery", H5, STREAM(OVER) },
	{ HIP, "hipEventSynchronize", H5, STREAM(OVER) },
};
#define ROWS_CNT (sizeof(rows) / sizeof(*rows))

_Static_assert(ROWS_CNT < MT_SEG_SPECS_MAX, "each has a spec, and calibration one");

size_t gpu_rows(const struct gpu_row **ret)
{
	*ret = rows;
	return ROWS_CNT;
}

/* --- sites ---------------------------------------------------------------------------------------------- */

static uint32_t arg_of(const struct mt_seg_arg *a)
{
	return a->form != MT_SEG_NO && a->where < MT_ARG_REGS ? ARG_BIT(a->where) : 0;
}

static uint32_t args_of(const struct mt_seg_spec *s)
{
	uint32_t args = arg_of(&s->addr) | arg_of(&s->aux) | arg_of(&s->dev) | arg_of(&s->asked);

	for (int i = 0; i < MT_SEG_FACTORS; i++)
		args |= arg_of(&s->size[i]);
	return args;
}

int gpu__add_spec(struct plan *plan, const struct mt_seg_spec *spec)
{
	for (size_t i = 0; i < plan->seg_specs_cnt; i++)
		if (!memcmp(&plan->seg_specs[i], spec, sizeof(*spec)))
			return (int)i;
	if (!array_has_one_more(plan->seg_specs, plan->seg_specs_cnt))
		return -ENOMEM;
	plan->seg_specs[plan->seg_specs_cnt] = *spec;
	return (int)plan->seg_specs_cnt++;
}

/* Index of the row's spec in the plan, added at its first use; -ENOMEM. */
static int add_spec(struct builder *b, const struct gpu_row *row)
{
	struct mt_seg_spec spec = row->spec;

	spec.api = names__add(b->names, row->symbol).v;
	return gpu__add_spec(b->plan, &spec);
}

void gpu__at(struct plan *plan, const struct lib *lib)
{
	if (!strncmp(lib->base, "libnccl.so", 10) || !strncmp(lib->base, "librccl.so", 10)) {
		plan->comm_start = lib->exec_start;
		plan->comm_end = lib->exec_end;
	}
}

/* Entry and return are on one instruction, as for the malloc family: one trap serves both. */
static int add_row(struct builder *b, const struct gpu_row *row, const struct elf_sym *sym)
{
	struct prologue_need need = { args_of(&row->spec), 1 };
	struct site site = { .prog = MT_PROG_SEG_ENTER, .source = SRC_SEGMENTS };
	int spec, r;

	if (sym->type != STT_FUNC || !sym->is_exec)
		return 0;
	r = builder__place(b, sym, row->symbol, &need, &site);
	if (r < 0) {
		if (r == -EINVAL)
			builder__note(b, "%s: the code of %s cannot be read", b->lib->base, row->symbol);
		return 0;
	}
	if (row->spec.sets != MT_SEG_AT_ENTRY && !b->classes.of[INSN_RETURN].is_usable) {
		builder__leave_out(b, row->symbol);
		return 0;
	}
	spec = add_spec(b, row);
	if (spec < 0)
		return spec;
	site.cookie = (uint64_t)spec;
	r = builder__add_site(b, &site, row->symbol);
	if (r < 0 || row->spec.sets == MT_SEG_AT_ENTRY) {
		b->gpu_found += r >= 0;
		return r;
	}
	site.prog = MT_PROG_SEG_RET;
	site.is_ret = 1;
	site.cost_ns = b->classes.of[site.insn_class].pair_ns;
	b->gpu_found++;
	return builder__add_site(b, &site, row->symbol);
}

int gpu__plan_lib(struct builder *b)
{
	int r = 0;

	for (size_t i = 0; i < ROWS_CNT && r >= 0; i++) {
		struct elf_sym sym;

		r = elf__find_symbol(b->elf, rows[i].symbol, &sym) < 0 ? 0 : add_row(b, &rows[i], &sym);
	}
	return r < 0 ? r : 0;
}

size_t gpu__names(const char **ret, size_t max)
{
	size_t cnt = max < ROWS_CNT ? max : ROWS_CNT;

	for (size_t i = 0; i < cnt; i++)
		ret[i] = rows[i].symbol;
	return cnt;
}

/* A local function of a library. */
int gpu__plan_local(struct builder *b, size_t name, const struct elf_sym *sym)
{
	struct elf_sym exported;

	return elf__find_symbol(b->elf, sym->name, &exported) < 0 ? add_row(b, &rows[name], sym) : 0;
}

void gpu__cover(struct builder *b)
{
	builder__cover(b, SRC_SEGMENTS, b->gpu_found, b->gpu_found);
}
