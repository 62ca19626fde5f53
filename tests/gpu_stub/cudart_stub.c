/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* libcudart.so.13 of the stub: the runtime's memory API over the stub driver, calling it as the real one does. */
#include "stub.h"

#include <stdlib.h>
#include <string.h>

struct extent {
	size_t width, height, depth;
};
struct pitched {
	void *ptr;
	size_t pitch, xsize, ysize;
};
struct channels {
	int x, y, z, w, kind;
};
struct ipc_handle {
	char bytes[64];
};

int cuMemAlloc_v2(void **, size_t, unsigned), cuMemAllocManaged(void **, size_t, unsigned);
int cuMemAllocHost_v2(void **, size_t, unsigned), cuMemHostAlloc(void **, size_t, unsigned);
int cuMemAllocPitch_v2(void **, size_t *, size_t, size_t, unsigned);
int cuMemFree_v2(uint64_t), cuMemFreeHost(uint64_t), cuMemHostRegister_v2(void *, size_t, unsigned);
int cuMemHostUnregister(uint64_t), cuArrayDestroy(uint64_t), cuMipmappedArrayDestroy(uint64_t);
int cuMemAllocAsync(void **, size_t, uint64_t), cuMemFreeAsync(uint64_t, uint64_t);
int cuMemAllocFromPoolAsync(void **, size_t, uint64_t, uint64_t);
int cuMemPoolTrimTo(uint64_t, size_t), cuMemPoolDestroy(uint64_t), cuDeviceGraphMemTrim(int);
int cuGraphAddMemAllocNode(uint64_t *, uint64_t, const uint64_t *, size_t, void *);
int cuGraphAddMemFreeNode(uint64_t *, uint64_t, const uint64_t *, size_t, uint64_t);
int cuIpcOpenMemHandle_v2(void **, struct ipc_handle, unsigned), cuIpcCloseMemHandle(uint64_t);
int cuImportExternalMemory(uint64_t *, const void *), cuDestroyExternalMemory(uint64_t);
int cuExternalMemoryGetMappedBuffer(void **, uint64_t, const void *);
int cuDevicePrimaryCtxReset_v2(int);
int cuMemPoolCreate(uint64_t *, const void *), cuDeviceGetDefaultMemPool(uint64_t *, int);
int cuStreamBeginCapture_v2(uint64_t, int), cuStreamEndCapture(uint64_t, uint64_t *);
int cuGraphInstantiateWithFlags(uint64_t *, uint64_t, unsigned long long), cuGraphLaunch(uint64_t, uint64_t);
void *stub_entry_point(const char *name);

static __thread int last_error;

static int done(struct stub_call *c, int r)
{
	if (r)
		last_error = r;
	return stub_leave(c, r);
}
#undef LEAVE
#define LEAVE(r) return done(&call, r)

/* (void **out, size_t size, flags), through the driver's function. */
#define GIVES(name, inner, on_device)                                            \
	int name(void **out, size_t size, unsigned flags);                       \
	API int name(void **out, size_t size, unsigned flags)                    \
	{                                                                        \
		CALL(#name);                                                     \
		int r = inner(out, size, flags);                                 \
                                                                                 \
		call.addr = r ? 0 : (uint64_t)*out;                              \
		call.size = size;                                                \
		if (!(on_device))                                                \
			call.dev = -1;                                           \
		LEAVE(r);                                                        \
	}
#define TAKES(name, inner)                                                       \
	int name(uint64_t at);                                                   \
	API int name(uint64_t at)                                                \
	{                                                                        \
		CALL(#name);                                                     \
		call.addr = at;                                                  \
		LEAVE(at ? inner(at) : OK);                                      \
	}
#define GIVES_ASYNC(name)                                                        \
	int name(void **out, size_t size, uint64_t stream);                      \
	API int name(void **out, size_t size, uint64_t stream)                   \
	{                                                                        \
		CALL(#name);                                                     \
		int r = cuMemAllocAsync(out, size, stream);                      \
                                                                                 \
		call.addr = r ? 0 : (uint64_t)*out;                              \
		call.size = size;                                                \
		call.aux = stream;                                               \
		LEAVE(r);                                                        \
	}
#define TAKES_ASYNC(name)                                                        \
	int name(uint64_t at, uint64_t stream);                                  \
	API int name(uint64_t at, uint64_t stream)                               \
	{                                                                        \
		CALL(#name);                                                     \
		call.addr = at;                                                  \
		call.aux = stream;                                               \
		LEAVE(cuMemFreeAsync(at, stream));                               \
	}

GIVES(cudaMalloc, cuMemAlloc_v2, 1)
GIVES(cudaMallocManaged, cuMemAllocManaged, 1)
GIVES(cudaMallocHost, cuMemAllocHost_v2, 0)
GIVES(cudaHostAlloc, cuMemHostAlloc, 0)
TAKES(cudaFree, cuMemFree_v2)
TAKES(cudaFreeHost, cuMemFreeHost)
TAKES(cudaFreeArray, cuArrayDestroy)
TAKES(cudaFreeMipmappedArray, cuMipmappedArrayDestroy)
TAKES(cudaHostUnregister, cuMemHostUnregister)
TAKES(cudaIpcCloseMemHandle, cuIpcCloseMemHandle)
TAKES(cudaDestroyExternalMemory, cuDestroyExternalMemory)
GIVES_ASYNC(cudaMallocAsync)
GIVES_ASYNC(cudaMallocAsync_ptsz)
TAKES_ASYNC(cudaFreeAsync)
TAKES_ASYNC(cudaFreeAsync_ptsz)

int cudaMallocFromPoolAsync(void **out, size_t size, uint64_t pool, uint64_t stream);
API int cudaMallocFromPoolAsync(void **out, size_t size, uint64_t pool, uint64_t stream)
{
	CALL("cudaMallocFromPoolAsync");
	int r = cuMemAllocFromPoolAsync(out, size, pool, stream);

	call.addr = r ? 0 : (uint64_t)*out;
	call.size = size;
	call.aux = pool;
	call.dev = -1;
	LEAVE(r);
}

int cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height);
API int cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
	CALL("cudaMallocPitch");
	int r = cuMemAllocPitch_v2(out, pitch, width, height, 4);

	call.addr = r ? 0 : (uint64_t)*out;
	call.size = (r ? width : *pitch) * height;
	LEAVE(r);
}

int cudaMalloc3D(struct pitched *out, struct extent e);
API int cudaMalloc3D(struct pitched *out, struct extent e)
{
	CALL("cudaMalloc3D");
	size_t pitch;
	void *p;
	int r = cuMemAllocPitch_v2(&p, &pitch, e.width, e.height * e.depth, 4);

	if (!r)
		*out = (struct pitched){ p, pitch, e.width, e.height };
	call.addr = r ? 0 : (uint64_t)p;
	call.size = (r ? e.width : pitch) * e.height * e.depth;
	LEAVE(r);
}

static uint64_t at_least_one(uint64_t n) { return n ? n : 1; }

static int gives_array(struct stub_call *c, uint64_t *out, const struct channels *ch, struct extent e, unsigned levels,
		       unsigned flags)
{
	uint64_t element = (uint64_t)(ch->x + ch->y + ch->z + ch->w) / 8, h;

	for (unsigned l = 0; l < levels; l++)
		c->size += element * at_least_one(e.width >> l) * at_least_one(e.height >> l) *
			   (flags & 5 ? at_least_one(e.depth) : at_least_one(e.depth >> l));
	h = stub_handle(c->size, *stub_device());
	if (!h)
		return NO_MEMORY;
	c->addr = *out = h;
	return OK;
}

int cudaMallocArray(uint64_t *out, const struct channels *ch, size_t width, size_t height, unsigned flags);
API int cudaMallocArray(uint64_t *out, const struct channels *ch, size_t width, size_t height, unsigned flags)
{
	CALL("cudaMallocArray");
	LEAVE(gives_array(&call, out, ch, (struct extent){ width, height, 0 }, 1, flags));
}

int cudaMalloc3DArray(uint64_t *out, const struct channels *ch, struct extent e, unsigned flags);
API int cudaMalloc3DArray(uint64_t *out, const struct channels *ch, struct extent e, unsigned flags)
{
	CALL("cudaMalloc3DArray");
	LEAVE(gives_array(&call, out, ch, e, 1, flags));
}

int cudaMallocMipmappedArray(uint64_t *out, const struct channels *ch, struct extent e, unsigned levels, unsigned flags);
API int cudaMallocMipmappedArray(uint64_t *out, const struct channels *ch, struct extent e, unsigned levels,
				 unsigned flags)
{
	CALL("cudaMallocMipmappedArray");
	LEAVE(gives_array(&call, out, ch, e, levels, flags));
}

int cudaHostRegister(void *p, size_t size, unsigned flags);
API int cudaHostRegister(void *p, size_t size, unsigned flags)
{
	CALL("cudaHostRegister");
	call.addr = (uint64_t)p;
	call.size = size;
	call.dev = -1;
	LEAVE(cuMemHostRegister_v2(p, size, flags));
}

int cudaMemPoolTrimTo(uint64_t pool, size_t keep);
API int cudaMemPoolTrimTo(uint64_t pool, size_t keep)
{
	CALL("cudaMemPoolTrimTo");
	call.addr = pool;
	call.size = keep;
	LEAVE(cuMemPoolTrimTo(pool, keep));
}

int cudaMemPoolDestroy(uint64_t pool);
API int cudaMemPoolDestroy(uint64_t pool)
{
	CALL("cudaMemPoolDestroy");
	call.addr = pool;
	LEAVE(cuMemPoolDestroy(pool));
}

int cudaDeviceGraphMemTrim(int dev);
API int cudaDeviceGraphMemTrim(int dev)
{
	CALL("cudaDeviceGraphMemTrim");
	call.dev = dev;
	LEAVE(cuDeviceGraphMemTrim(dev));
}

int cudaGraphAddMemAllocNode(uint64_t *node, uint64_t graph, const uint64_t *deps, size_t cnt, void *params);
API int cudaGraphAddMemAllocNode(uint64_t *node, uint64_t graph, const uint64_t *deps, size_t cnt, void *params)
{
	CALL("cudaGraphAddMemAllocNode");
	int r = cuGraphAddMemAllocNode(node, graph, deps, cnt, params);

	memcpy(&call.dev, (char *)params + 12, sizeof(call.dev));
	call.aux = graph;
	memcpy(&call.size, (char *)params + 104, sizeof(call.size));
	memcpy(&call.addr, (char *)params + 112, sizeof(call.addr));
	LEAVE(r);
}

int cudaGraphAddMemFreeNode(uint64_t *node, uint64_t graph, const uint64_t *deps, size_t cnt, uint64_t ptr);
API int cudaGraphAddMemFreeNode(uint64_t *node, uint64_t graph, const uint64_t *deps, size_t cnt, uint64_t ptr)
{
	CALL("cudaGraphAddMemFreeNode");
	call.addr = ptr;
	LEAVE(cuGraphAddMemFreeNode(node, graph, deps, cnt, ptr));
}

int cudaIpcOpenMemHandle(void **out, struct ipc_handle handle, unsigned flags);
API int cudaIpcOpenMemHandle(void **out, struct ipc_handle handle, unsigned flags)
{
	CALL("cudaIpcOpenMemHandle");
	int r = cuIpcOpenMemHandle_v2(out, handle, flags);

	call.addr = r ? 0 : (uint64_t)*out;
	LEAVE(r);
}

int cudaImportExternalMemory(uint64_t *out, const void *desc);
API int cudaImportExternalMemory(uint64_t *out, const void *desc)
{
	CALL("cudaImportExternalMemory");
	int r = cuImportExternalMemory(out, desc);

	memcpy(&call.size, (const char *)desc + 24, sizeof(call.size));
	call.addr = *out;
	LEAVE(r);
}

int cudaExternalMemoryGetMappedBuffer(void **out, uint64_t ext, const void *desc);
API int cudaExternalMemoryGetMappedBuffer(void **out, uint64_t ext, const void *desc)
{
	CALL("cudaExternalMemoryGetMappedBuffer");
	int r = cuExternalMemoryGetMappedBuffer(out, ext, desc);

	memcpy(&call.size, (const char *)desc + 8, sizeof(call.size));
	call.addr = (uint64_t)*out;
	call.aux = ext;
	LEAVE(r);
}

int cudaDeviceReset(void);
API int cudaDeviceReset(void)
{
	CALL("cudaDeviceReset");
	LEAVE(cuDevicePrimaryCtxReset_v2(*stub_device()));
}

int cudaSetDevice(int dev);
API int cudaSetDevice(int dev)
{
	CALL("cudaSetDevice");
	if (dev < 0 || dev >= stub_devices()) {
		call.dev = -1;
		LEAVE(101);
	}
	call.dev = *stub_device() = dev;
	LEAVE(OK);
}

/* --- what PyTorch asks for besides ---------------------------------------------------------------------- */

#define SAYS_OK(name) \
	int name(void); \
	API int name(void) { return OK; }
#define SAYS(name, type, value)       \
	int name(type *out);          \
	API int name(type *out)       \
	{                             \
		*out = (value);       \
		return OK;            \
	}

static __thread int events_busy;
static uint64_t handles = 0x770000000000;

SAYS_OK(cudaDeviceEnablePeerAccess)
SAYS_OK(cudaDeviceSynchronize)
SAYS_OK(cudaEventDestroy)
SAYS_OK(cudaEventRecord)
SAYS_OK(cudaEventSynchronize)
SAYS_OK(cudaMemcpy)
SAYS_OK(cudaMemcpyAsync)
SAYS_OK(cudaMemcpyPeerAsync)
SAYS_OK(cudaStreamQuery)
SAYS_OK(cudaStreamSynchronize)
SAYS_OK(cudaStreamWaitEvent)
SAYS_OK(cudaThreadExchangeStreamCaptureMode)
SAYS_OK(cudaMemPoolSetAccess)
SAYS_OK(cudaMemPoolSetAttribute)
SAYS_OK(cudaDeviceSetGraphMemAttribute)
SAYS_OK(cudaGraphNodeGetDependencies)
SAYS_OK(cudaIpcGetMemHandle)
SAYS(cudaGetDevice, int, *stub_device())
SAYS(cudaGetDeviceCount, int, stub_devices())
SAYS(cudaDriverGetVersion, int, 13000)
SAYS(cudaStreamCreateWithPriority, uint64_t, __atomic_add_fetch(&handles, 0x100, __ATOMIC_RELAXED))
SAYS(cudaEventCreateWithFlags, uint64_t, __atomic_add_fetch(&handles, 0x100, __ATOMIC_RELAXED))

/* The next n cudaEventQuery() of this thread say "not ready". */
API void stub_event_busy(int n);
void stub_event_busy(int n) { events_busy = n; }

int cudaEventQuery(uint64_t event);
API int cudaEventQuery(uint64_t event)
{
	(void)event;
	return events_busy > 0 ? (events_busy--, last_error = 600) : OK;
}

int cudaGetLastError(void);
API int cudaGetLastError(void)
{
	int r = last_error;

	last_error = OK;
	return r;
}

const char *cudaGetErrorString(int r);
API const char *cudaGetErrorString(int r) { return r == NO_MEMORY ? "out of memory" : r ? "error" : "no error"; }
const char *cudaGetErrorName(int r);
API const char *cudaGetErrorName(int r) { return r == NO_MEMORY ? "cudaErrorMemoryAllocation" : "cudaError"; }

int cudaDeviceCanAccessPeer(int *out, int a, int b);
API int cudaDeviceCanAccessPeer(int *out, int a, int b)
{
	*out = a != b;
	return OK;
}

int cudaDeviceGetDefaultMemPool(uint64_t *out, int dev);
API int cudaDeviceGetDefaultMemPool(uint64_t *out, int dev)
{
	CALL("cudaDeviceGetDefaultMemPool");
	int r = cuDeviceGetDefaultMemPool(out, dev);

	call.dev = dev;
	call.addr = *out;
	LEAVE(r);
}

int cudaMemPoolCreate(uint64_t *out, const void *prop);
API int cudaMemPoolCreate(uint64_t *out, const void *prop)
{
	CALL("cudaMemPoolCreate");
	int r = cuMemPoolCreate(out, prop);

	memcpy(&call.dev, (const char *)prop + 12, sizeof(call.dev));
	call.addr = *out;
	LEAVE(r);
}

int cudaStreamBeginCapture(uint64_t stream, int mode);
API int cudaStreamBeginCapture(uint64_t stream, int mode)
{
	CALL("cudaStreamBeginCapture");
	call.addr = stream;
	LEAVE(cuStreamBeginCapture_v2(stream, mode));
}

int cudaStreamEndCapture(uint64_t stream, uint64_t *graph);
API int cudaStreamEndCapture(uint64_t stream, uint64_t *graph)
{
	CALL("cudaStreamEndCapture");
	int r = cuStreamEndCapture(stream, graph);

	call.addr = r ? 0 : *graph;
	call.aux = stream;
	LEAVE(r);
}

int cudaGraphInstantiate(uint64_t *out, uint64_t graph, unsigned long long flags);
API int cudaGraphInstantiate(uint64_t *out, uint64_t graph, unsigned long long flags)
{
	CALL("cudaGraphInstantiate");
	int r = cuGraphInstantiateWithFlags(out, graph, flags);

	call.addr = *out;
	call.aux = graph;
	LEAVE(r);
}

int cudaGraphLaunch(uint64_t exec, uint64_t stream);
API int cudaGraphLaunch(uint64_t exec, uint64_t stream)
{
	CALL("cudaGraphLaunch");
	call.addr = exec;
	LEAVE(cuGraphLaunch(exec, stream));
}

int cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return OK;
}

int cudaEventElapsedTime(float *out, uint64_t a, uint64_t b);
API int cudaEventElapsedTime(float *out, uint64_t a, uint64_t b)
{
	(void)a;
	(void)b;
	*out = 0;
	return OK;
}

int cudaMemGetInfo(size_t *available, size_t *total);
API int cudaMemGetInfo(size_t *available, size_t *total)
{
	*total = stub_total();
	*available = *total - stub_used(*stub_device());
	return OK;
}

/* Reserved and used bytes of a pool, current and highest: all that the device gave out. */
int cudaMemPoolGetAttribute(uint64_t pool, int attribute, uint64_t *out);
API int cudaMemPoolGetAttribute(uint64_t pool, int attribute, uint64_t *out)
{
	(void)attribute;
	*out = stub_used((int)(pool & 15));
	return OK;
}

/* What the nodes of graphs hold, as the allocator of 2.15 asks: nothing, for a launch runs none of them here. */
int cudaDeviceGetGraphMemAttribute(int dev, int attribute, uint64_t *out);
API int cudaDeviceGetGraphMemAttribute(int dev, int attribute, uint64_t *out)
{
	(void)dev;
	(void)attribute;
	*out = 0;
	return OK;
}

int cudaStreamIsCapturing(uint64_t stream, int *out);
API int cudaStreamIsCapturing(uint64_t stream, int *out)
{
	(void)stream;
	*out = 0;
	return OK;
}

int cudaStreamGetCaptureInfo(uint64_t stream, int *status, unsigned long long *id);
API int cudaStreamGetCaptureInfo(uint64_t stream, int *status, unsigned long long *id)
{
	(void)stream;
	*status = 0;
	if (id)
		*id = 0;
	return OK;
}

int cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags, int *status);
API int cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags,
					 int *status)
{
	(void)version;
	(void)flags;
	*out = stub_entry_point(name);
	if (status)
		*status = 0;
	return OK;
}

/* struct cudaDeviceProp of CUDA 13 (1008 bytes), as far as anybody looks at it here. */
#define PROP_BYTES 1008
#define PROP_TOTAL 288
#define PROP_MAJOR 360

int cudaGetDeviceProperties(char *prop, int dev);
API int cudaGetDeviceProperties(char *prop, int dev)
{
	uint64_t total = stub_total();
	int major = 9;

	if (dev < 0 || dev >= stub_devices())
		return 101;
	memset(prop, 0, PROP_BYTES);
	memcpy(prop, "stub", 4);
	memcpy(prop + PROP_TOTAL, &total, sizeof(total));
	memcpy(prop + PROP_MAJOR, &major, sizeof(major));
	return OK;
}
