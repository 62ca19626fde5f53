/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Drives the memory API of a GPU over the stub libraries, each function at least once, the failing way too.
 *
 *   gpu_target api | threads | contexts | comms | graphs | pools | late | exit | kill | throw | odd
 *
 * Protocol: "ready PID", waits for a line, works, "done", waits for another, ends. The truth is in MT_STUB_LOG.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MB (1ull << 20)

struct extent { size_t width, height, depth; };
struct pitched { void *ptr; size_t pitch, xsize, ysize; };
struct channels { int x, y, z, w, kind; };
struct location { int type, id; };
struct prop { int type, handle_types; struct location location; };
struct array_desc { size_t width, height; unsigned format, channels; };
struct array3d_desc { size_t width, height, depth; unsigned format, channels, flags; };
struct ext_desc { int type, pad; uint64_t handle[2]; unsigned long long size; unsigned flags; };
struct buffer_desc { unsigned long long offset, size; unsigned flags; };
struct node_params { int type, handle_types; struct location location; char more[72]; void *access; size_t cnt, bytes;
	uint64_t dptr; };
struct ipc_handle { char bytes[64]; };

int cudaSetDevice(int), cudaMalloc(void **, size_t), cudaFree(void *), cudaDeviceReset(void);
int cudaMallocPitch(void **, size_t *, size_t, size_t), cudaMalloc3D(struct pitched *, struct extent);
int cudaMallocManaged(void **, size_t, unsigned), cudaMallocHost(void **, size_t), cudaFreeHost(void *);
int cudaHostAlloc(void **, size_t, unsigned), cudaHostRegister(void *, size_t, unsigned), cudaHostUnregister(void *);
int cudaMallocAsync(void **, size_t, uint64_t), cudaMallocAsync_ptsz(void **, size_t, uint64_t);
int cudaFreeAsync(void *, uint64_t), cudaFreeAsync_ptsz(void *, uint64_t);
int cudaMallocFromPoolAsync(void **, size_t, uint64_t, uint64_t);
int cudaMallocArray(uint64_t *, const struct channels *, size_t, size_t, unsigned), cudaFreeArray(uint64_t);
int cudaMalloc3DArray(uint64_t *, const struct channels *, struct extent, unsigned);
int cudaMallocMipmappedArray(uint64_t *, const struct channels *, struct extent, unsigned, unsigned);
int cudaFreeMipmappedArray(uint64_t), cudaMemPoolTrimTo(uint64_t, size_t), cudaMemPoolDestroy(uint64_t);
int cudaDeviceGraphMemTrim(int), cudaIpcOpenMemHandle(void **, struct ipc_handle, unsigned);
int cudaGraphAddMemAllocNode(uint64_t *, uint64_t, const uint64_t *, size_t, struct node_params *);
int cudaGraphAddMemFreeNode(uint64_t *, uint64_t, const uint64_t *, size_t, void *);
int cudaIpcCloseMemHandle(void *), cudaImportExternalMemory(uint64_t *, const struct ext_desc *);
int cudaExternalMemoryGetMappedBuffer(void **, uint64_t, const struct buffer_desc *), cudaDestroyExternalMemory(uint64_t);
int cuMemAlloc_v2(void **, size_t), cuMemFree_v2(void *), cuMemAllocManaged(void **, size_t, unsigned);
int cuMemAllocPitch_v2(void **, size_t *, size_t, size_t, unsigned), cuMemAllocHost_v2(void **, size_t);
int cuMemHostAlloc(void **, size_t, unsigned), cuMemFreeHost(void *), cuMemHostRegister_v2(void *, size_t, unsigned);
int cuMemHostUnregister(void *), cuMemAllocAsync(void **, size_t, uint64_t), cuMemFreeAsync(void *, uint64_t);
int cuMemAllocAsync_ptsz(void **, size_t, uint64_t), cuMemFreeAsync_ptsz(void *, uint64_t);
int cuMemAllocFromPoolAsync(void **, size_t, uint64_t, uint64_t), cuMemPoolTrimTo(uint64_t, size_t);
int cuMemPoolDestroy(uint64_t), cuDeviceGraphMemTrim(int), cuArrayCreate_v2(uint64_t *, const struct array_desc *);
int cuArray3DCreate_v2(uint64_t *, const struct array3d_desc *), cuArrayDestroy(uint64_t);
int cuMipmappedArrayCreate(uint64_t *, const struct array3d_desc *, unsigned), cuMipmappedArrayDestroy(uint64_t);
int cuMemCreate(uint64_t *, size_t, const struct prop *, unsigned long long), cuMemRelease(uint64_t);
int cuMemMap(uint64_t, size_t, size_t, uint64_t, unsigned long long), cuMemUnmap(uint64_t, size_t);
int cuMemAddressReserve(uint64_t *, size_t, size_t, uint64_t, unsigned long long), cuMemAddressFree(uint64_t, size_t);
int cuMemRetainAllocationHandle(uint64_t *, uint64_t), cuMemImportFromShareableHandle(uint64_t *, void *, int);
int cuIpcOpenMemHandle_v2(void **, struct ipc_handle, unsigned), cuIpcCloseMemHandle(void *);
int cuImportExternalMemory(uint64_t *, const struct ext_desc *), cuDestroyExternalMemory(uint64_t);
int cuExternalMemoryGetMappedBuffer(void **, uint64_t, const struct buffer_desc *);
int cuGraphAddMemAllocNode(uint64_t *, uint64_t, const uint64_t *, size_t, struct node_params *);
int cuGraphAddMemFreeNode(uint64_t *, uint64_t, const uint64_t *, size_t, void *);
int cuCtxCreate_v2(uint64_t *, unsigned, int), cuCtxCreate_v4(uint64_t *, void *, unsigned, int);
int cuCtxSetCurrent(uint64_t), cuCtxDestroy_v2(uint64_t), cuDevicePrimaryCtxReset_v2(int);
struct comm_id { char bytes[128]; };
int ncclCommInitRank(void **, int, struct comm_id, int), ncclCommInitRankConfig(void **, int, struct comm_id, int, void *);
int ncclCommInitAll(void **, int, const int *), ncclCommSplit(void *, int, int, void **, void *);
int ncclCommFinalize(void *), ncclCommDestroy(void *), ncclCommAbort(void *);
int cudaMemPoolCreate(uint64_t *, const struct prop *), cudaDeviceGetDefaultMemPool(uint64_t *, int);
int cudaStreamBeginCapture(uint64_t, int), cudaStreamEndCapture(uint64_t, uint64_t *), cudaGraphLaunch(uint64_t, uint64_t);
int cudaGraphInstantiate(uint64_t *, uint64_t, unsigned long long), cuMemPoolCreate(uint64_t *, const struct prop *);
int cuDeviceGetDefaultMemPool(uint64_t *, int), cuStreamBeginCapture_v2(uint64_t, int);
int cuStreamEndCapture(uint64_t, uint64_t *), cuGraphInstantiateWithFlags(uint64_t *, uint64_t, unsigned long long);
int cuGraphLaunch(uint64_t, uint64_t);
int cuDevicePrimaryCtxRelease_v2(int), ncclMemAlloc(void **, size_t), ncclMemFree(void *);

/* Every result is expected: the stub answers as told. */
#define YES(call)                                                                     \
	do {                                                                          \
		if (call) {                                                           \
			fprintf(stderr, "%s failed\n", #call);                        \
			exit(1);                                                      \
		}                                                                     \
	} while (0)
#define NO(call)                                                                      \
	do {                                                                          \
		if (!(call)) {                                                        \
			fprintf(stderr, "%s succeeded\n", #call);                     \
			exit(1);                                                      \
		}                                                                     \
	} while (0)
#define TOO_MUCH (1ull << 40)

static void wait_line(void)
{
	char c = 0;

	while (c != '\n')
		if (read(0, &c, 1) != 1)
			_exit(4);
}

static const struct channels half4 = { 16, 16, 16, 16, 1 };
static const struct ext_desc ext = { 1, 0, { 5, 0 }, 3 * MB, 0 };
static const struct buffer_desc buf = { 4096, 2 * MB, 0 };
static const struct ipc_handle handle = { "h" };

static void runtime_linear(void)
{
	struct pitched p3;
	size_t pitch;
	void *p, *q;

	YES(cudaMalloc(&p, 512));
	YES(cudaMalloc(&q, 33 * MB + 7));
	YES(cudaFree(p));
	YES(cudaFree(NULL));
	YES(cudaMalloc(&p, 0));
	NO(cudaMalloc(&p, TOO_MUCH));
	YES(cudaFree(q));
	NO(cudaFree((void *)12345));
	YES(cudaMallocPitch(&p, &pitch, 1000, 33));
	YES(cudaFree(p));
	NO(cudaMallocPitch(&p, &pitch, TOO_MUCH, 3));
	YES(cudaMalloc3D(&p3, (struct extent){ 700, 5, 4 }));
	YES(cudaFree(p3.ptr));
	NO(cudaMalloc3D(&p3, (struct extent){ TOO_MUCH, 5, 4 }));
	YES(cudaMallocManaged(&p, 5 * MB, 1));
	YES(cudaFree(p));
}

static void runtime_host(void)
{
	static char page[8192];
	void *p;

	YES(cudaMallocHost(&p, 12345));
	YES(cudaFreeHost(p));
	YES(cudaHostAlloc(&p, 54321, 2));
	YES(cudaFreeHost(p));
	YES(cudaHostRegister(page, sizeof(page), 0));
	NO(cudaHostRegister(NULL, 4096, 0));
	YES(cudaHostUnregister(page));
}

/* Seven segments of pinned memory, of which three stay; an address may be another one's later. */
static void pinned(void)
{
	void *held[7];

	for (int i = 0; i < 4; i++)
		YES(cudaHostAlloc(&held[i], (1u << 20) + 4096u * (unsigned)i, 0));
	YES(cudaFreeHost(held[2]));
	YES(cudaFreeHost(held[0]));
	for (int i = 4; i < 7; i++)
		YES(cudaMallocHost(&held[i], (1u << 20) + 4096u * (unsigned)i));
	YES(cudaFreeHost(held[5]));
	YES(cudaFreeHost(held[6]));
}

static void runtime_async(void)
{
	void *p, *q;

	YES(cudaMallocAsync(&p, 777, 0x700000001234));
	YES(cudaMallocAsync_ptsz(&q, 778, 0));
	NO(cudaMallocAsync(&q, TOO_MUCH, 0));
	YES(cudaFreeAsync(p, 0x700000001234));
	YES(cudaMallocFromPoolAsync(&p, 779, 0x880000000001, 5));
	YES(cudaFreeAsync_ptsz(p, 5));
	YES(cudaMemPoolTrimTo(0x880000000001, 1 * MB));
	YES(cudaMemPoolDestroy(0x880000000001));
	YES(cudaDeviceGraphMemTrim(1));
	YES(cudaFree(q)); /* the plain free takes it as well */
}

static void runtime_arrays(void)
{
	uint64_t a;

	YES(cudaMallocArray(&a, &half4, 100, 0, 0));
	YES(cudaFreeArray(a));
	YES(cudaMallocArray(&a, &half4, 100, 30, 0));
	YES(cudaFreeArray(a));
	YES(cudaMalloc3DArray(&a, &half4, (struct extent){ 10, 20, 30 }, 0));
	YES(cudaFreeArray(a));
	NO(cudaMalloc3DArray(&a, &half4, (struct extent){ MB, MB, 0 }, 0));
	YES(cudaMallocMipmappedArray(&a, &half4, (struct extent){ 64, 32, 8 }, 7, 0));
	YES(cudaFreeMipmappedArray(a));
	YES(cudaMallocMipmappedArray(&a, &half4, (struct extent){ 64, 64, 6 }, 3, 4)); /* a cube has six faces at each level */
	YES(cudaFreeMipmappedArray(a));
}

static void runtime_others(void)
{
	struct node_params node = { 1, 0, { 1, 1 }, { 0 }, NULL, 0, 6 * MB, 0 };
	uint64_t e, n;
	void *p;

	YES(cudaIpcOpenMemHandle(&p, handle, 1));
	YES(cudaIpcCloseMemHandle(p));
	NO(cudaIpcOpenMemHandle(&p, (struct ipc_handle){ "x" }, 1));
	YES(cudaImportExternalMemory(&e, &ext));
	YES(cudaExternalMemoryGetMappedBuffer(&p, e, &buf));
	YES(cudaFree(p));
	YES(cudaDestroyExternalMemory(e));
	YES(cudaGraphAddMemAllocNode(&n, 1, NULL, 0, &node));
	YES(cudaGraphAddMemFreeNode(&n, 1, NULL, 0, (void *)node.dptr));
	YES(ncclMemAlloc(&p, 4 * MB));
	YES(ncclMemFree(p));
	NO(ncclMemAlloc(&p, TOO_MUCH));
}

static void driver_linear(void)
{
	static char page[4096];
	size_t pitch;
	void *p;

	YES(cuMemAlloc_v2(&p, 4097));
	YES(cuMemFree_v2(p));
	NO(cuMemAlloc_v2(&p, TOO_MUCH));
	YES(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 8));
	YES(cuMemFree_v2(p));
	YES(cuMemAllocManaged(&p, 4098, 1));
	YES(cuMemFree_v2(p));
	YES(cuMemAllocHost_v2(&p, 4099));
	YES(cuMemFreeHost(p));
	YES(cuMemHostAlloc(&p, 4100, 0));
	YES(cuMemFreeHost(p));
	YES(cuMemHostRegister_v2(page, 4096, 0));
	YES(cuMemHostUnregister(page));
	YES(cuMemAllocAsync(&p, 99, 7));
	YES(cuMemFreeAsync(p, 7));
	YES(cuMemAllocAsync_ptsz(&p, 98, 0));
	YES(cuMemFreeAsync_ptsz(p, 0));
	YES(cuMemAllocFromPoolAsync(&p, 97, 0x880000000000, 7));
	YES(cuMemFreeAsync(p, 7));
	YES(cuMemPoolTrimTo(0x880000000000, 0));
	YES(cuMemPoolDestroy(0x880000000002));
	YES(cuDeviceGraphMemTrim(0));
}

static void driver_arrays(void)
{
	struct array_desc d = { 50, 0, 0x20, 2 };
	struct array3d_desc d3 = { 16, 8, 4, 0x09, 4, 0 };
	uint64_t a;

	YES(cuArrayCreate_v2(&a, &d));
	YES(cuArrayDestroy(a));
	YES(cuArray3DCreate_v2(&a, &d3));
	YES(cuArrayDestroy(a));
	YES(cuMipmappedArrayCreate(&a, &d3, 5));
	YES(cuMipmappedArrayDestroy(a));
	d3.flags = 1; /* layers */
	YES(cuMipmappedArrayCreate(&a, &d3, 2));
	YES(cuMipmappedArrayDestroy(a));
}

static void driver_virtual(void)
{
	struct prop fabric = { 1, 8, { 1, 1 } }, plain = { 1, 1, { 1, 1 } }, host = { 1, 1, { 3, 0 } };
	uint64_t at, h, again, in_host;

	NO(cuMemCreate(&h, 2 * MB, &fabric, 0));
	YES(cuMemCreate(&h, 2 * MB, &plain, 0));
	YES(cuMemCreate(&in_host, 4 * MB, &host, 0));
	NO(cuMemCreate(&again, TOO_MUCH, &plain, 0));
	YES(cuMemAddressReserve(&at, 64 * MB, 0, 0, 0));
	YES(cuMemMap(at, 2 * MB, 0, h, 0));
	YES(cuMemMap(at + 2 * MB, 2 * MB, 0, h, 0));
	NO(cuMemMap(at + 4 * MB, 2 * MB, 0, 77, 0));
	YES(cuMemRetainAllocationHandle(&again, h));
	YES(cuMemRelease(again));
	YES(cuMemUnmap(at, 4 * MB));
	YES(cuMemRelease(h));
	NO(cuMemRelease(h));
	YES(cuMemRelease(in_host));
	YES(cuMemAddressFree(at, 64 * MB));
	YES(cuMemImportFromShareableHandle(&h, NULL, 1));
	YES(cuMemRelease(h));
}

static void driver_others(void)
{
	struct node_params node = { 1, 0, { 1, 0 }, { 0 }, NULL, 0, 5 * MB, 0 };
	uint64_t e, n;
	void *p;

	YES(cuIpcOpenMemHandle_v2(&p, handle, 1));
	YES(cuIpcCloseMemHandle(p));
	YES(cuImportExternalMemory(&e, &ext));
	YES(cuExternalMemoryGetMappedBuffer(&p, e, &buf));
	YES(cuMemFree_v2(p));
	YES(cuDestroyExternalMemory(e));
	YES(cuGraphAddMemAllocNode(&n, 1, NULL, 0, &node));
	YES(cuGraphAddMemFreeNode(&n, 1, NULL, 0, (void *)node.dptr));
}

static void all_of_it(void)
{
	runtime_linear();
	runtime_host();
	runtime_async();
	runtime_arrays();
	runtime_others();
	driver_linear();
	driver_arrays();
	driver_virtual();
	driver_others();
}

static void api(void)
{
	all_of_it(); /* the thread's device is unknown */
	NO(cudaSetDevice(9));
	YES(cudaSetDevice(1));
	all_of_it();
	YES(cudaSetDevice(0));
	all_of_it();
}

static void contexts(void)
{
	uint64_t a, b;
	void *p;

	YES(cuCtxCreate_v2(&a, 0, 1));
	YES(cuMemAlloc_v2(&p, 1000));
	YES(cuMemAlloc_v2(&p, 2000)); /* both end with the context */
	YES(cuCtxCreate_v4(&b, NULL, 0, 0));
	YES(cuMemAlloc_v2(&p, 3000));
	YES(cuMemFree_v2(p));
	YES(cuCtxSetCurrent(a));
	YES(cuMemAlloc_v2(&p, 4000));
	YES(cuCtxDestroy_v2(a));
	YES(cudaSetDevice(1));
	YES(cudaMalloc(&p, 5000));
	YES(cudaDeviceReset());
	YES(cudaMalloc(&p, 6000));
	YES(cuDevicePrimaryCtxReset_v2(1));
	YES(cuDevicePrimaryCtxRelease_v2(0));
}

/* As its lines in the log; the marks say what has to be shown then. */
static void mark(const char *what)
{
	struct timespec t;

	usleep(60000); /* events before and after a mark are told apart by their time */
	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("{\"mark\":\"%s\",\"t\":%llu}\n", what,
	       (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec);
	fflush(stdout);
	usleep(60000);
}

/* Each communicator takes 4 MiB, 2 MiB mapped and 1 MiB by a thread of its own on its device, and pins 3 MiB. */
static void comms(void)
{
	static const int both[2] = { 0, 1 };
	struct comm_id id = { "id" };
	void *one, *two, *pair[2], *part, *none, *own, *buffer;

	YES(cudaSetDevice(1));
	YES(cudaMalloc(&own, 8 * MB)); /* not for communication */
	YES(ncclCommInitRank(&one, 1, id, 0));
	mark("one");
	NO(ncclCommInitRankConfig(&two, 1, id, 0, NULL)); /* "in progress" is no failure */
	YES(ncclCommInitAll(pair, 2, both));
	YES(ncclCommSplit(one, 0, 0, &part, NULL));
	YES(ncclCommSplit(one, -1, 0, &none, NULL)); /* this rank is in no part */
	YES(ncclMemAlloc(&buffer, 6 * MB));
	mark("five");
	YES(ncclCommFinalize(one));
	YES(ncclCommDestroy(one));
	YES(ncclCommAbort(two));
	YES(ncclCommDestroy(part));
	mark("two");
	YES(ncclCommDestroy(pair[0]));
	YES(ncclCommDestroy(pair[1]));
	YES(ncclMemFree(buffer));
	YES(cudaFree(own));
}

static void graphs(void)
{
	struct node_params node = { 1, 0, { 1, 1 }, { 0 }, NULL, 0, 6 * MB, 0 };
	uint64_t g, exec, n;
	void *kept, *temp, *plain, *own;

	YES(cudaSetDevice(0));
	YES(cudaMallocAsync(&plain, 1 * MB, 5));
	YES(cudaStreamBeginCapture(5, 0));
	YES(cudaMallocAsync(&kept, 4 * MB, 5));
	YES(cudaMallocAsync(&temp, 2 * MB, 5));
	YES(cudaMallocAsync(&own, 3 * MB, 6)); /* another stream: as ever */
	YES(cudaFreeAsync(temp, 5));
	YES(cudaStreamEndCapture(5, &g));
	YES(cudaGraphInstantiate(&exec, g, 0));
	mark("captured");
	YES(cudaGraphLaunch(exec, 5));
	YES(cudaGraphLaunch(exec, 5));
	mark("launched");
	YES(cudaFreeAsync(kept, 5));
	YES(cudaFreeAsync(own, 6));
	YES(cudaStreamBeginCapture(13, 0));
	YES(cudaMallocAsync(&temp, 2 * MB, 13));
	NO(cudaStreamEndCapture(13, &g)); /* nothing comes of it */
	YES(cudaGraphAddMemAllocNode(&n, 0xbb00, NULL, 0, &node));
	YES(cudaGraphInstantiate(&exec, 0xbb00, 0));
	YES(cudaGraphLaunch(exec, 5));
	mark("nodes");
	YES(cudaFree((void *)node.dptr));
	YES(cudaDeviceGraphMemTrim(1));
	YES(cudaFreeAsync(plain, 5));
	YES(cuStreamBeginCapture_v2(7, 0)); /* of no memory: is not kept */
	YES(cuStreamEndCapture(7, &g));
	YES(cuGraphInstantiateWithFlags(&exec, g, 0));
	YES(cuGraphLaunch(exec, 7));
}

/* Memory of a pool is on the pool's device, whatever the thread has chosen. */
static void pools(void)
{
	struct prop on1 = { 1, 1, { 1, 1 } };
	uint64_t own, usual, unseen = 0x990000000f01;
	void *a, *b, *c;

	YES(cudaSetDevice(0));
	YES(cudaMemPoolCreate(&own, &on1));
	YES(cudaDeviceGetDefaultMemPool(&usual, 0));
	YES(cudaMallocFromPoolAsync(&a, 5 * MB, own, 3));
	YES(cudaMallocFromPoolAsync(&b, 7 * MB, usual, 3));
	mark("given");
	YES(cudaMallocFromPoolAsync(&c, 1 * MB, unseen, 3)); /* a pool from before the attach */
	mark("unseen");
	YES(cudaFreeAsync(c, 3));
	YES(cudaFreeAsync(a, 3));
	YES(cudaFreeAsync(b, 3));
	YES(cudaMemPoolDestroy(own));
	YES(cuMemPoolCreate(&own, &on1));
	YES(cuDeviceGetDefaultMemPool(&usual, 1));
	YES(cuMemPoolDestroy(own));
}

#define THREADS 8
#define ROUNDS 400

static void *thread_main(void *arg)
{
	int n = (int)(intptr_t)arg;
	unsigned seed = (unsigned)n + 1;
	void *p[8] = { 0 };

	if (n % 4) /* two of eight keep what a thread begins with: device 0 */
		YES(cudaSetDevice(n % 2));
	for (int i = 0; i < ROUNDS; i++) {
		int k = rand_r(&seed) % 8;

		if (p[k]) {
			YES(k % 2 ? cudaFree(p[k]) : cudaFreeAsync(p[k], (uint64_t)n));
			p[k] = NULL;
		} else if (i % 50 == 7) {
			NO(cudaMalloc(&p[k], TOO_MUCH));
		} else {
			size_t size = 1 + (size_t)rand_r(&seed) % 100000;

			if (k % 2 ? cudaMalloc(&p[k], size) : cudaMallocAsync(&p[k], size, (uint64_t)n))
				p[k] = NULL; /* the test chose a small device */
		}
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t[THREADS];

	for (intptr_t i = 0; i < THREADS; i++)
		YES(pthread_create(&t[i], NULL, thread_main, (void *)i));
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

/* A call that a signal handler leaves for good, from inside: later calls lie deeper and must not be lost in it. */
static jmp_buf out;
extern void (*stub_inside)(void); /* of the stub */

static void leave(void) { longjmp(out, 1); }

static __attribute__((noinline)) void deeper(int n)
{
	volatile char room[512];
	void *p;

	memset((char *)room, n, sizeof(room));
	if (n) {
		deeper(n - 1);
	} else {
		YES(cudaMalloc(&p, 2222));
		YES(cudaFree(p));
	}
	room[0]++;
}

static void thrown(void)
{
	void *p;

	YES(cudaMalloc(&p, 1111));
	YES(cudaFree(p));
	for (volatile int i = 0; i < 3; i++) {
		stub_inside = leave;
		if (!setjmp(out))
			cudaMalloc(&p, 4444);
		stub_inside = NULL;
		deeper(6);
	}
	YES(cudaMalloc(&p, 3333));
	YES(cudaFree(p));
}

/* A fork in the middle of a call: it returns in the child, too, which goes on to ask for memory. */
static pid_t child;

static void fork_inside(void)
{
	stub_inside = NULL;
	child = fork();
}

#define MANY 10000

static void odd(void)
{
	static void *held[MANY];
	void *p;

	stub_inside = fork_inside;
	YES(cudaMalloc(&p, 6001));
	if (!child) {
		YES(cudaMalloc(&p, 6002));
		_exit(0);
	}
	waitpid(child, NULL, 0);
	YES(cudaFree(p));
	YES(cudaMalloc(&p, 0));
	NO(cudaMalloc(&p, SIZE_MAX));
	NO(cudaMallocManaged(&p, SIZE_MAX - 4095, 1));
	YES(cudaSetDevice(1));
	for (int i = 0; i < MANY; i++)
		YES(cudaMalloc(&held[i], 512u + (unsigned)i));
	for (int i = MANY; i-- > MANY / 2;)
		YES(cudaFree(held[i]));
	YES(cudaDeviceReset());
	NO(cudaFree(held[0]));
	YES(cudaMalloc(&p, 7001));
	YES(cudaFree(p));
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	void *before[4], *p;

	if (!strcmp(mode, "late")) {
		YES(cudaSetDevice(1));
		for (int i = 0; i < 4; i++)
			YES(cudaMalloc(&before[i], 1000u + (unsigned)i));
	}
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	wait_line();
	if (!strcmp(mode, "api")) {
		api();
	} else if (!strcmp(mode, "contexts")) {
		contexts();
	} else if (!strcmp(mode, "comms")) {
		comms();
	} else if (!strcmp(mode, "pinned")) {
		pinned();
	} else if (!strcmp(mode, "graphs")) {
		graphs();
	} else if (!strcmp(mode, "pools")) {
		pools();
	} else if (!strcmp(mode, "threads")) {
		threads();
	} else if (!strcmp(mode, "odd")) {
		odd();
	} else if (!strcmp(mode, "throw")) {
		thrown();
	} else if (!strcmp(mode, "late")) {
		YES(cudaMalloc(&p, 555));
		for (int i = 0; i < 4; i++)
			YES(cudaFree(before[i]));
		YES(cudaSetDevice(1));
		YES(cudaMalloc(&p, 556));
	} else if (!strcmp(mode, "exit") || !strcmp(mode, "kill")) {
		for (int i = 0; i < 50; i++)
			YES(cudaMalloc(&p, 100u + (unsigned)i));
		if (mode[0] == 'k')
			kill(getpid(), SIGKILL);
		exit(0);
	} else {
		return 2;
	}
	printf("done\n");
	fflush(stdout);
	wait_line();
	return 0;
}
