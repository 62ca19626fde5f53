/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* libcuda.so.1 of the stub: the driver's API, and the memory behind all three libraries. */
#include "stub.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- memory ------------------------------------------------------------------------------------------ */

#define ITEMS_MAX (1 << 16)
#define PAGE 512 /* what the driver rounds to at least; only addresses are rounded here */

struct item {
	uint64_t at; /* address or handle; 0 = free */
	uint64_t size, counted;
	int dev, is_handle, refs;
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct item items[ITEMS_MAX];
static size_t items_cnt;
static uint64_t used[16], next_handle = 0x550000001000;
static int log_fd = -1;
static __thread int device_now, depth_now, comm_now;

static uint64_t env_number(const char *name, uint64_t none)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : none;
}

__attribute__((constructor)) static void stub_begin(void)
{
	const char *path = getenv("MT_STUB_LOG");

	if (path)
		log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

uint64_t stub_total(void) { return env_number("MT_STUB_TOTAL", 400ull << 20); }
int stub_devices(void) { return (int)env_number("MT_STUB_DEVICES", 2); }
void stub_mark_comm(int inside) { comm_now += inside; }
void stub_depth(int by) { depth_now += by; }
int *stub_device(void) { return &device_now; }
uint64_t stub_used(int dev) { return used[dev & 15]; }

static struct item *item_of(uint64_t at)
{
	for (size_t i = items_cnt; i-- > 0;)
		if (items[i].at == at)
			return &items[i];
	return NULL;
}

static struct item *item_new(uint64_t at, uint64_t size, uint64_t counted, int dev)
{
	struct item *it = item_of(0);

	if (!it) {
		if (items_cnt == ITEMS_MAX)
			abort();
		it = &items[items_cnt++];
	}
	*it = (struct item){ .at = at, .size = size, .counted = counted, .dev = dev, .refs = 1 };
	used[dev & 15] += counted;
	return it;
}

static int item_fits(uint64_t size, int dev)
{
	return dev < 0 || size <= env_number("MT_STUB_LIMIT", stub_total()) - used[dev & 15];
}

static void item_end(struct item *it)
{
	used[it->dev & 15] -= it->counted;
	if (!it->is_handle)
		munmap((void *)it->at, it->size ? it->size : 1);
	it->at = 0;
}

static int device_prot(void)
{
	return env_number("MT_STUB_TOUCH", 0) ? PROT_READ | PROT_WRITE : PROT_NONE;
}

/* Host memory (dev < 0) is not counted. */
void *stub_map(uint64_t size, int dev)
{
	void *p = NULL;

	pthread_mutex_lock(&lock);
	if (item_fits(size, dev)) {
		p = mmap(NULL, size, dev < 0 ? PROT_READ | PROT_WRITE : device_prot(),
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			p = NULL;
		else
			item_new((uint64_t)p, size, dev < 0 ? 0 : size, dev < 0 ? 0 : dev);
	}
	pthread_mutex_unlock(&lock);
	return p;
}

int stub_unmap(void *ptr)
{
	struct item *it;

	pthread_mutex_lock(&lock);
	it = ptr ? item_of((uint64_t)ptr) : NULL;
	if (it)
		item_end(it);
	pthread_mutex_unlock(&lock);
	return it || !ptr ? OK : INVALID;
}

uint64_t stub_handle(uint64_t size, int dev)
{
	uint64_t handle = 0;

	pthread_mutex_lock(&lock);
	if (item_fits(size, dev)) {
		handle = next_handle += 0x40;
		item_new(handle, size, dev < 0 ? 0 : size, dev < 0 ? 0 : dev)->is_handle = 1;
	}
	pthread_mutex_unlock(&lock);
	return handle;
}

int stub_drop(uint64_t handle)
{
	struct item *it;

	pthread_mutex_lock(&lock);
	it = handle ? item_of(handle) : NULL;
	if (it && !--it->refs)
		item_end(it);
	pthread_mutex_unlock(&lock);
	return it ? OK : INVALID;
}

uint64_t stub_size_of(uint64_t at)
{
	struct item *it;
	uint64_t size;

	pthread_mutex_lock(&lock);
	it = at ? item_of(at) : NULL;
	size = it ? it->size : 0;
	pthread_mutex_unlock(&lock);
	return size;
}

void stub_drop_all(int dev)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < items_cnt; i++)
		if (items[i].at && items[i].counted && items[i].dev == dev)
			item_end(&items[i]);
	pthread_mutex_unlock(&lock);
}

void *stub_reserve(uint64_t size)
{
	const uint64_t align = 2 << 20;
	uint64_t p = (uint64_t)mmap(NULL, size + align, device_prot(), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return (void *)((p + align - 1) & ~(align - 1));
}

/* --- the log ------------------------------------------------------------------------------------------- */

void stub_enter(struct stub_call *c, const char *fn)
{
	*c = (struct stub_call){ .fn = fn, .dev = device_now };
	depth_now++;
}

int stub_leave(struct stub_call *c, int ret)
{
	char line[512];
	int n;

	depth_now--;
	if (log_fd < 0)
		return ret;
	n = snprintf(line, sizeof(line),
		     "{\"fn\":\"%s\",\"tid\":%d,\"depth\":%d,\"ret\":%d,\"addr\":%llu,\"size\":%llu,\"aux\":%llu,"
		     "\"dev\":%d,\"comm\":%d}\n",
		     c->fn, (int)syscall(SYS_gettid), depth_now, ret, (unsigned long long)c->addr,
		     (unsigned long long)c->size, (unsigned long long)c->aux, c->dev, comm_now > 0);
	if (write(log_fd, line, (size_t)n) != n)
		abort();
	return ret;
}

/* A call that this leaves (longjmp) never returns: it is taken back here, and has no line in the log. It may come back, too. */
SHARED void (*stub_inside)(void);

static void inside(void)
{
	void (*fn)(void) = stub_inside;
	int depth = depth_now;

	if (!fn)
		return;
	depth_now = 0;
	fn();
	depth_now = depth;
}

/* --- the driver's API ---------------------------------------------------------------------------------- */

struct location {
	int type, id;
};
struct alloc_prop {
	int type, handle_types;
	struct location location;
};
struct array3d_desc {
	size_t width, height, depth;
	unsigned format, channels, flags;
};
struct array_desc {
	size_t width, height;
	unsigned format, channels;
};
struct ext_desc {
	int type, pad;
	uint64_t handle[2];
	unsigned long long size;
	unsigned flags;
};
struct buffer_desc {
	unsigned long long offset, size;
};
struct node_params {
	struct {
		int type, handle_types;
		struct location location;
		char more[72];
	} props;
	void *access;
	size_t access_cnt, bytesize;
	uint64_t dptr;
};
struct ipc_handle {
	char bytes[64];
};

static uint64_t context_now_of[16];
static __thread uint64_t context_now;

static int gives(struct stub_call *c, void **out, size_t size, int dev)
{
	void *p = NULL;

	inside();
	if (size)
		p = stub_map(size, dev);
	c->size = size;
	if (size && !p)
		return NO_MEMORY;
	*out = p;
	c->addr = (uint64_t)p;
	return OK;
}

#define GIVES(name, dev_of)                                                      \
	API int name(void **out, size_t size, unsigned flags)                    \
	{                                                                        \
		CALL(#name);                                                     \
		(void)flags;                                                     \
		call.dev = dev_of;                                               \
		call.aux = call.dev < 0 ? 0 : context_now;                       \
		LEAVE(gives(&call, out, size, dev_of));                          \
	}
#define TAKES(name, drops)                                                       \
	API int name(uint64_t at)                                                \
	{                                                                        \
		CALL(#name);                                                     \
		call.addr = at;                                                  \
		LEAVE(drops);                                                    \
	}
#define GIVES_ASYNC(name)                                                        \
	API int name(void **out, size_t size, uint64_t stream)                   \
	{                                                                        \
		CALL(#name);                                                     \
		call.aux = stream;                                               \
		LEAVE(gives(&call, out, size, device_now));                      \
	}
#define TAKES_ASYNC(name)                                                        \
	API int name(uint64_t at, uint64_t stream)                               \
	{                                                                        \
		CALL(#name);                                                     \
		call.addr = at;                                                  \
		call.aux = stream;                                               \
		LEAVE(stub_unmap((void *)at));                                   \
	}

int cuMemAlloc_v2(void **, size_t, unsigned), cuMemAllocManaged(void **, size_t, unsigned);
int cuMemAllocHost_v2(void **, size_t, unsigned), cuMemHostAlloc(void **, size_t, unsigned);
int cuMemFree_v2(uint64_t), cuMemFreeHost(uint64_t), cuArrayDestroy(uint64_t), cuMipmappedArrayDestroy(uint64_t);
int cuMemHostUnregister(uint64_t), cuIpcCloseMemHandle(uint64_t), cuDestroyExternalMemory(uint64_t);
int cuMemRelease(uint64_t);
int cuMemAllocAsync(void **, size_t, uint64_t), cuMemAllocAsync_ptsz(void **, size_t, uint64_t);
int cuMemFreeAsync(uint64_t, uint64_t), cuMemFreeAsync_ptsz(uint64_t, uint64_t);

GIVES(cuMemAlloc_v2, device_now)
GIVES(cuMemAllocManaged, device_now)
GIVES(cuMemAllocHost_v2, -1)
GIVES(cuMemHostAlloc, -1)
TAKES(cuMemFree_v2, stub_unmap((void *)at))
TAKES(cuMemFreeHost, stub_unmap((void *)at))
TAKES(cuArrayDestroy, stub_drop(at))
TAKES(cuMipmappedArrayDestroy, stub_drop(at))
TAKES(cuMemHostUnregister, at ? OK : INVALID)
TAKES(cuIpcCloseMemHandle, stub_unmap((void *)at))
TAKES(cuDestroyExternalMemory, stub_drop(at))
TAKES(cuMemRelease, stub_drop(at))
GIVES_ASYNC(cuMemAllocAsync)
GIVES_ASYNC(cuMemAllocAsync_ptsz)
TAKES_ASYNC(cuMemFreeAsync)
TAKES_ASYNC(cuMemFreeAsync_ptsz)

/* A pool's handle says its device, as that of the default one does. */
static int stub_pool_dev(uint64_t pool) { return (int)(pool & 15); }

API int cuMemPoolCreate(uint64_t *out, const struct alloc_prop *prop)
{
	CALL("cuMemPoolCreate");
	static uint64_t next = 0x990000000000;

	call.dev = prop->location.id;
	call.addr = *out = (next += 0x100) + (uint64_t)prop->location.id;
	LEAVE(OK);
}

API int cuDeviceGetDefaultMemPool(uint64_t *out, int dev)
{
	CALL("cuDeviceGetDefaultMemPool");
	call.dev = dev;
	call.addr = *out = 0x880000000000 + (uint64_t)dev;
	LEAVE(OK);
}

/* --- graphs: what is captured is not done, but memory gets its address at once ------------------------- */

static uint64_t next_graph = 0xaa0000000000;

API int cuStreamBeginCapture_v2(uint64_t stream, int mode)
{
	CALL("cuStreamBeginCapture_v2");
	(void)mode;
	call.addr = stream;
	LEAVE(OK);
}

/* Stream 13 brings bad luck: its capture comes to nothing. */
API int cuStreamEndCapture(uint64_t stream, uint64_t *graph)
{
	CALL("cuStreamEndCapture");
	call.aux = stream;
	if (stream == 13)
		LEAVE(901);
	call.addr = *graph = next_graph += 0x100;
	LEAVE(OK);
}

API int cuGraphInstantiateWithFlags(uint64_t *out, uint64_t graph, unsigned long long flags)
{
	CALL("cuGraphInstantiateWithFlags");
	(void)flags;
	call.aux = graph;
	call.addr = *out = graph + 1;
	LEAVE(OK);
}

API int cuGraphLaunch(uint64_t exec, uint64_t stream)
{
	CALL("cuGraphLaunch");
	(void)stream;
	call.addr = exec;
	LEAVE(OK);
}

API int cuMemAllocFromPoolAsync(void **out, size_t size, uint64_t pool, uint64_t stream)
{
	CALL("cuMemAllocFromPoolAsync");
	(void)stream;
	call.aux = pool;
	call.dev = -1;
	LEAVE(gives(&call, out, size, stub_pool_dev(pool)));
}

API int cuMemAllocPitch_v2(void **out, size_t *pitch, size_t width, size_t height, unsigned element)
{
	CALL("cuMemAllocPitch_v2");
	size_t p = (width + 511) / 512 * 512;
	int r = gives(&call, out, p * height, device_now);

	(void)element;
	call.aux = context_now;
	if (r)
		call.size = width * height; /* the pitch is known to nobody */
	else
		*pitch = p;
	LEAVE(r);
}

API int cuMemHostRegister_v2(void *p, size_t size, unsigned flags)
{
	CALL("cuMemHostRegister_v2");
	(void)flags;
	call.addr = (uint64_t)p;
	call.size = size;
	call.dev = -1;
	LEAVE(p && size ? OK : INVALID);
}

static unsigned format_bytes(unsigned f)
{
	return f == 1 || f == 8 ? 1 : f == 2 || f == 9 || f == 0x10 ? 2 : f == 3 || f == 10 || f == 0x20 ? 4 : 0;
}

static uint64_t at_least_one(uint64_t n) { return n ? n : 1; }

static int gives_array(struct stub_call *c, uint64_t *out, uint64_t size)
{
	uint64_t h = stub_handle(size, device_now);

	c->size = size;
	c->aux = context_now;
	if (!h)
		return NO_MEMORY;
	c->addr = *out = h;
	return OK;
}

API int cuArrayCreate_v2(uint64_t *out, const struct array_desc *d)
{
	CALL("cuArrayCreate_v2");
	LEAVE(gives_array(&call, out, d->width * at_least_one(d->height) * format_bytes(d->format) * d->channels));
}

API int cuArray3DCreate_v2(uint64_t *out, const struct array3d_desc *d)
{
	CALL("cuArray3DCreate_v2");
	LEAVE(gives_array(&call, out, d->width * at_least_one(d->height) * at_least_one(d->depth) *
				      format_bytes(d->format) * d->channels));
}

API int cuMipmappedArrayCreate(uint64_t *out, const struct array3d_desc *d, unsigned levels)
{
	CALL("cuMipmappedArrayCreate");
	uint64_t size = 0;

	for (unsigned l = 0; l < levels; l++)
		size += at_least_one(d->width >> l) * at_least_one(d->height >> l) *
			(d->flags & 5 ? at_least_one(d->depth) : at_least_one(d->depth >> l)) *
			format_bytes(d->format) * d->channels;
	LEAVE(gives_array(&call, out, size));
}

API int cuMemPoolTrimTo(uint64_t pool, size_t keep)
{
	CALL("cuMemPoolTrimTo");
	call.addr = pool;
	call.size = keep;
	LEAVE(OK);
}

API int cuMemPoolDestroy(uint64_t pool)
{
	CALL("cuMemPoolDestroy");
	call.addr = pool;
	LEAVE(OK);
}

API int cuDeviceGraphMemTrim(int dev)
{
	CALL("cuDeviceGraphMemTrim");
	call.dev = dev;
	LEAVE(OK);
}

API int cuGraphAddMemAllocNode(uint64_t *node, uint64_t graph, const uint64_t *deps, size_t cnt, struct node_params *p)
{
	CALL("cuGraphAddMemAllocNode");
	void *ptr = NULL;
	int r;

	call.aux = graph;
	(void)deps;
	(void)cnt;
	call.dev = p->props.location.id;
	r = gives(&call, &ptr, p->bytesize, call.dev);
	*node = (uint64_t)ptr + 1;
	p->dptr = (uint64_t)ptr;
	LEAVE(r);
}

API int cuGraphAddMemFreeNode(uint64_t *node, uint64_t graph, const uint64_t *deps, size_t cnt, uint64_t ptr)
{
	CALL("cuGraphAddMemFreeNode");
	(void)graph;
	(void)deps;
	(void)cnt;
	*node = ptr + 1;
	call.addr = ptr;
	LEAVE(stub_unmap((void *)ptr));
}

/* --- virtual memory ------------------------------------------------------------------------------------ */

API int cuMemCreate(uint64_t *out, size_t size, const struct alloc_prop *prop, unsigned long long flags)
{
	CALL("cuMemCreate");
	uint64_t h = 0;

	(void)flags;
	call.size = size;
	call.dev = prop->location.type == 1 ? prop->location.id : -2; /* -2: host memory */
	if (prop->handle_types == 8)
		LEAVE(800); /* no fabric here, as on most machines */
	h = stub_handle(size, call.dev < 0 ? -1 : call.dev);
	if (!h)
		LEAVE(NO_MEMORY);
	call.addr = *out = h;
	LEAVE(OK);
}

API int cuMemRetainAllocationHandle(uint64_t *out, uint64_t handle)
{
	CALL("cuMemRetainAllocationHandle"); /* the real one is given an address; the stub keeps no mappings */
	struct item *it = item_of(handle);

	call.dev = -1;
	if (!it)
		LEAVE(INVALID);
	it->refs++;
	call.addr = *out = handle;
	LEAVE(OK);
}

API int cuMemImportFromShareableHandle(uint64_t *out, void *os_handle, int type)
{
	CALL("cuMemImportFromShareableHandle");
	(void)os_handle;
	(void)type;
	call.dev = -1;
	call.addr = *out = stub_handle(0, -1);
	LEAVE(OK);
}

API int cuMemExportToShareableHandle(void *out, uint64_t handle, int type, unsigned long long flags)
{
	(void)out;
	(void)handle;
	(void)type;
	(void)flags;
	return OK;
}

API int cuMemAddressReserve(void **out, size_t size, size_t align, uint64_t at, unsigned long long flags)
{
	CALL("cuMemAddressReserve");
	(void)align;
	(void)at;
	(void)flags;
	call.dev = -1;
	call.addr = (uint64_t)(*out = stub_reserve(size));
	call.size = size;
	LEAVE(OK);
}

API int cuMemAddressFree(uint64_t at, size_t size)
{
	CALL("cuMemAddressFree");
	call.addr = at;
	call.size = size;
	munmap((void *)at, size);
	LEAVE(OK);
}

API int cuMemMap(uint64_t at, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
	CALL("cuMemMap");
	(void)offset;
	(void)flags;
	call.addr = at;
	call.size = size;
	call.aux = handle;
	LEAVE(stub_size_of(handle) ? OK : INVALID);
}

API int cuMemUnmap(uint64_t at, size_t size)
{
	CALL("cuMemUnmap");
	call.addr = at;
	call.size = size;
	LEAVE(OK);
}

API int cuMemSetAccess(uint64_t at, size_t size, const void *desc, size_t cnt)
{
	(void)at;
	(void)size;
	(void)desc;
	(void)cnt;
	return OK;
}

/* --- of others ------------------------------------------------------------------------------------------ */

API int cuIpcOpenMemHandle_v2(void **out, struct ipc_handle handle, unsigned flags)
{
	CALL("cuIpcOpenMemHandle_v2");
	int r;

	(void)flags;
	if (handle.bytes[0] != 'h')
		LEAVE(INVALID);
	call.aux = context_now;
	r = gives(&call, out, 4096, -1);
	call.size = 0; /* the call does not say it */
	LEAVE(r);
}

API int cuImportExternalMemory(uint64_t *out, const struct ext_desc *d)
{
	CALL("cuImportExternalMemory");
	call.size = d->size;
	call.aux = context_now;
	call.addr = *out = stub_handle(d->size, -1);
	LEAVE(OK);
}

API int cuExternalMemoryGetMappedBuffer(void **out, uint64_t ext, const struct buffer_desc *d)
{
	CALL("cuExternalMemoryGetMappedBuffer");
	int r = gives(&call, out, d->size, -1);

	call.aux = ext;
	LEAVE(r);
}

/* --- contexts ------------------------------------------------------------------------------------------- */

static int context_new(struct stub_call *c, uint64_t *out, int dev)
{
	static uint64_t next = 0x660000000000;

	c->addr = *out = __atomic_add_fetch(&next, 0x1000, __ATOMIC_RELAXED);
	c->dev = dev;
	context_now = *out;
	context_now_of[dev & 15] = *out;
	device_now = dev;
	return OK;
}

API int cuCtxCreate_v2(uint64_t *out, unsigned flags, int dev)
{
	CALL("cuCtxCreate_v2");
	(void)flags;
	LEAVE(context_new(&call, out, dev));
}

API int cuCtxCreate_v4(uint64_t *out, void *params, unsigned flags, int dev)
{
	CALL("cuCtxCreate_v4");
	(void)params;
	(void)flags;
	LEAVE(context_new(&call, out, dev));
}

API int cuCtxSetCurrent(uint64_t ctx)
{
	CALL("cuCtxSetCurrent");
	call.addr = context_now = ctx;
	LEAVE(OK);
}

API int cuCtxDestroy_v2(uint64_t ctx)
{
	CALL("cuCtxDestroy_v2");
	call.addr = ctx;
	for (int d = 0; d < 16; d++)
		if (context_now_of[d] == ctx) {
			call.dev = d;
			stub_drop_all(d);
		}
	context_now = 0;
	LEAVE(OK);
}

API int cuDevicePrimaryCtxReset_v2(int dev)
{
	CALL("cuDevicePrimaryCtxReset_v2");
	call.dev = dev;
	stub_drop_all(dev);
	LEAVE(OK);
}

API int cuDevicePrimaryCtxRelease_v2(int dev)
{
	CALL("cuDevicePrimaryCtxRelease_v2");
	call.dev = dev;
	LEAVE(OK);
}

/* --- what PyTorch asks for besides ---------------------------------------------------------------------- */

API int cuDeviceGet(int *out, int ordinal)
{
	*out = ordinal;
	return OK;
}

API int cuDeviceGetAttribute(int *out, int attribute, int dev)
{
	(void)attribute;
	(void)dev;
	*out = 0;
	return OK;
}

API int cuMemGetAllocationGranularity(size_t *out, const void *prop, int option)
{
	(void)prop;
	(void)option;
	*out = 2 << 20;
	return OK;
}

API int cuGetErrorString(int error, const char **out)
{
	*out = error == NO_MEMORY ? "out of memory" : error ? "error" : "no error";
	return OK;
}

API int stub_nothing(void);
int stub_nothing(void) { return OK; }

/* The exported function, as far as there is one: as on a real machine, so that uprobes fire. */
API void *stub_entry_point(const char *name);
void *stub_entry_point(const char *name)
{
	void *fn = dlsym(RTLD_DEFAULT, name);

	return fn ? fn : (void *)stub_nothing;
}
