/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* libnccl.so.2 of the stub: ncclMemAlloc as the real one does it, of physical memory that it maps. */
#include "stub.h"

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
