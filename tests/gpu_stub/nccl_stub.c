/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * libnccl.so.2 of the stub: ncclMemAlloc as the real one does it, of physical memory that it maps, and communicators:
 * each takes device memory in both ways, pinned memory, and some more by a thread of its own.
 */
#include "stub.h"

#include <pthread.h>
#include <stdlib.h>

struct prop {
	int type, handle_types;
	struct {
		int type, id;
	} location;
};

int cuMemCreate(uint64_t *, size_t, const struct prop *, unsigned long long);
int cuMemAddressReserve(void **, size_t, size_t, uint64_t, unsigned long long);
int cuMemMap(uint64_t, size_t, size_t, uint64_t, unsigned long long);
int cuMemUnmap(uint64_t, size_t);
int cuMemRelease(uint64_t);

int cuMemAlloc_v2(void **, size_t, unsigned), cuMemFree_v2(void *), cuMemHostAlloc(void **, size_t, unsigned);
int cuMemFreeHost(void *);

#define BUFFERS_MAX 64
static struct {
	uint64_t at, size, handle;
} buffers[BUFFERS_MAX];

int ncclMemAlloc(void **out, size_t size);
API int ncclMemAlloc(void **out, size_t size)
{
	CALL("ncclMemAlloc");
	struct prop prop = { 1, 1, { 1, *stub_device() } };
	uint64_t handle;
	int i = 0;

	call.size = size;
	if (cuMemCreate(&handle, size, &prop, 0))
		LEAVE(1); /* ncclUnhandledCudaError */
	while (buffers[i].at)
		i++;
	cuMemAddressReserve(out, size, 0, 0, 0);
	cuMemMap((uint64_t)*out, size, 0, handle, 0);
	buffers[i].at = call.addr = (uint64_t)*out;
	buffers[i].size = size;
	buffers[i].handle = handle;
	LEAVE(OK);
}

int ncclMemFree(void *at);
API int ncclMemFree(void *at)
{
	CALL("ncclMemFree");
	call.addr = (uint64_t)at;
	for (int i = 0; i < BUFFERS_MAX; i++)
		if (buffers[i].at && buffers[i].at == (uint64_t)at) {
			cuMemUnmap(buffers[i].at, buffers[i].size);
			cuMemRelease(buffers[i].handle);
			buffers[i].at = 0;
			LEAVE(OK);
		}
	LEAVE(4); /* ncclInvalidArgument */
}

/* --- communicators --------------------------------------------------------------------------------------- */

#define MB (1ull << 20)
#define IN_PROGRESS 7

struct comm {
	void *device, *host, *proxy, *mapped;
	uint64_t handle;
	int dev;
};
struct id {
	char bytes[128];
};

/* Inner calls of one that makes or ends a communicator are calls of their own. */
static void comm_enter(struct stub_call *c, const char *fn)
{
	stub_enter(c, fn);
	stub_depth(-1);
	stub_mark_comm(1);
}

static int comm_leave(struct stub_call *c, int ret)
{
	stub_mark_comm(-1);
	stub_depth(1);
	return stub_leave(c, ret);
}
#define IN_COMM(name) \
	struct stub_call call; \
	comm_enter(&call, name)
#define DONE(ret) return comm_leave(&call, ret)

/* NCCL has the runtime inside: this is a local symbol. */
int cudaSetDevice(int);
__attribute__((noinline)) int cudaSetDevice(int dev)
{
	CALL("cudaSetDevice");
	call.dev = *stub_device() = dev;
	LEAVE(OK);
}

/* The proxy: a thread that takes memory while it runs. */
static void *proxy_main(void *arg)
{
	struct comm *c = arg;

	stub_mark_comm(1);
	cudaSetDevice(c->dev);
	cuMemAlloc_v2(&c->proxy, 1 * MB, 0);
	stub_mark_comm(-1);
	return NULL;
}

static struct comm *comm_new(void)
{
	struct prop prop = { 1, 1, { 1, *stub_device() } };
	struct comm *c = calloc(1, sizeof(*c));
	pthread_t proxy;

	c->dev = *stub_device();
	if (cuMemAlloc_v2(&c->device, 4 * MB, 0) || cuMemCreate(&c->handle, 2 * MB, &prop, 0)) {
		cuMemFree_v2(c->device);
		free(c);
		return NULL;
	}
	cuMemAddressReserve(&c->mapped, 2 * MB, 0, 0, 0);
	cuMemMap((uint64_t)c->mapped, 2 * MB, 0, c->handle, 0);
	cuMemHostAlloc(&c->host, 3 * MB, 0);
	if (pthread_create(&proxy, NULL, proxy_main, c))
		abort();
	pthread_join(proxy, NULL);
	return c;
}

static void comm_free(struct comm *c)
{
	cuMemFree_v2(c->device);
	cuMemFree_v2(c->proxy);
	cuMemFreeHost(c->host);
	cuMemUnmap((uint64_t)c->mapped, 2 * MB);
	cuMemRelease(c->handle);
	free(c);
}

int ncclCommInitRank(struct comm **out, int ranks, struct id id, int rank);
API int ncclCommInitRank(struct comm **out, int ranks, struct id id, int rank)
{
	IN_COMM("ncclCommInitRank");
	(void)ranks;
	(void)id;
	(void)rank;
	*out = comm_new();
	call.addr = (uint64_t)*out;
	DONE(*out ? OK : 1);
}

/* Says that it is not done yet, as with a communicator that does not block. */
int ncclCommInitRankConfig(struct comm **out, int ranks, struct id id, int rank, void *config);
API int ncclCommInitRankConfig(struct comm **out, int ranks, struct id id, int rank, void *config)
{
	IN_COMM("ncclCommInitRankConfig");
	(void)ranks;
	(void)id;
	(void)rank;
	(void)config;
	call.addr = (uint64_t)(*out = comm_new());
	DONE(call.addr ? IN_PROGRESS : 1);
}

int ncclCommInitAll(struct comm **out, int cnt, const int *devs);
API int ncclCommInitAll(struct comm **out, int cnt, const int *devs)
{
	IN_COMM("ncclCommInitAll");
	int before = *stub_device();

	for (int i = 0; i < cnt; i++) {
		cudaSetDevice(devs[i]);
		out[i] = comm_new();
	}
	cudaSetDevice(before);
	call.addr = (uint64_t)out[0];
	call.size = (uint64_t)cnt;
	DONE(OK);
}

int ncclCommSplit(struct comm *c, int color, int key, struct comm **out, void *config);
API int ncclCommSplit(struct comm *c, int color, int key, struct comm **out, void *config)
{
	IN_COMM("ncclCommSplit");
	(void)c;
	(void)key;
	(void)config;
	*out = color < 0 ? NULL : comm_new();
	call.addr = (uint64_t)*out;
	DONE(OK);
}

int ncclCommFinalize(struct comm *c);
API int ncclCommFinalize(struct comm *c)
{
	IN_COMM("ncclCommFinalize");
	call.addr = (uint64_t)c;
	DONE(OK);
}

#define ENDS(name)                            \
	int name(struct comm *c);             \
	API int name(struct comm *c)          \
	{                                     \
		IN_COMM(#name);               \
		call.addr = (uint64_t)c;      \
		comm_free(c);                 \
		DONE(OK);                     \
	}
ENDS(ncclCommDestroy)
ENDS(ncclCommAbort)
