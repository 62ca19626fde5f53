/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A few calls a second of a stable C interface; its header is not needed. Types as in NVIDIA's nvml.h (12.x). */
#define LOG_MODULE "nvml"
#include "live/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "target/door.h"

#define PROCS_MAX 256
#define UUID_BYTES 96
#define NOT_AVAILABLE UINT64_MAX

struct nvml_memory {
	unsigned long long total, free, used;
};

/* Of _v2: memory that the driver reserves is not in `used`, and no process can have it. */
struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

#define NVML_MEMORY_V2 ((unsigned)sizeof(struct nvml_memory_v2) | 2u << 24)

/* Of _v2 and _v3 alike. */
struct nvml_process {
	unsigned pid;
	unsigned long long used;
	unsigned instance, compute;
};

struct nvml {
	void *lib;
	int (*shutdown)(void);
	int (*memory)(void *dev, struct nvml_memory *ret);
	int (*memory_v2)(void *dev, struct nvml_memory_v2 *ret);
	int (*processes)(void *dev, unsigned *cnt, struct nvml_process *ret);
	unsigned devs_cnt;
	struct {
		void *handle;
		char uuid[UUID_BYTES];
	} devs[NVML_DEVICES_MAX];
};

/* dlsym returns an object pointer; ISO C has no cast from that to a function pointer. */
static void find(void *lib, const char *name, const char *older, void *ret)
{
	void *sym = dlsym(lib, name);

	if (!sym && older)
		sym = dlsym(lib, older);
	memcpy(ret, &sym, sizeof(sym));
}

static void nvml__find_devices(struct nvml *n)
{
	int (*count)(unsigned *), (*by_index)(unsigned, void **), (*uuid)(void *, char *, unsigned);
	unsigned cnt = 0;

	find(n->lib, "nvmlDeviceGetCount_v2", NULL, &count);
	find(n->lib, "nvmlDeviceGetHandleByIndex_v2", NULL, &by_index);
	find(n->lib, "nvmlDeviceGetUUID", NULL, &uuid);
	if (!count || !by_index || !uuid || count(&cnt))
		return;
	for (unsigned i = 0; i < cnt && i < NVML_DEVICES_MAX; i++) {
		n->devs_cnt = i + 1;
		if (by_index(i, &n->devs[i].handle))
			n->devs[i].handle = NULL; /* not permitted, or gone */
		else if (uuid(n->devs[i].handle, n->devs[i].uuid, UUID_BYTES - 1))
			n->devs[i].uuid[0] = '\0';
	}
}

struct nvml *nvml__open(void)
{
	struct nvml *n = calloc(1, sizeof(*n));
	int (*init)(void);

	if (!n)
		return NULL;
	n->lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!n->lib) {
		free(n);
		return NULL;
	}
	find(n->lib, "nvmlInit_v2", NULL, &init);
	find(n->lib, "nvmlShutdown", NULL, &n->shutdown);
	find(n->lib, "nvmlDeviceGetMemoryInfo", NULL, &n->memory);
	find(n->lib, "nvmlDeviceGetMemoryInfo_v2", NULL, &n->memory_v2);
	find(n->lib, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", &n->processes);
	if (!init || !n->memory || !n->processes || init()) {
		log_debug("libnvidia-ml.so.1 is there, but does not work");
		dlclose(n->lib);
		free(n);
		return NULL;
	}
	nvml__find_devices(n);
	if (n->devs_cnt)
		return n;
	nvml__close(n);
	return NULL;
}

void nvml__close(struct nvml *n)
{
	if (!n)
		return;
	if (n->shutdown)
		n->shutdown();
	dlclose(n->lib);
	free(n);
}

/* As CUDA reads the variable: up to the first entry that is no device. UUIDs may be abbreviated. */
int nvml_ordinal(const char *visible, unsigned index, const char *uuid)
{
	if (!visible)
		return index < NVML_DEVICES_MAX ? (int)index : -1;
	for (int at = 0; at < NVML_DEVICES_MAX && *visible; at++) {
		size_t len = strcspn(visible, ",");
		char *end;
		unsigned long number;

		if (!strncmp(visible, "GPU-", 4)) {
			if (uuid[0] && len <= strlen(uuid) && !strncmp(visible, uuid, len))
				return at;
		} else {
			number = strtoul(visible, &end, 10);
			if (*visible < '0' || *visible > '9' || (*end && *end != ','))
				return -1;
			if (number == index)
				return at;
		}
		visible += len + (visible[len] == ',');
	}
	return -1;
}

/* Value of CUDA_VISIBLE_DEVICES in /proc/PID/environ into buf; NULL: not set, or not readable. */
static const char *visible_devices(pid_t pid, char *buf, size_t size)
{
	static const char key[] = "CUDA_VISIBLE_DEVICES=";
	char *text = malloc(1 << 16);
	const char *found = NULL;
	size_t len = 0;

	if (!text || door_text(pid, DOOR_ENVIRON, text, (1 << 16) - 1, &len) < 0)
		len = 0;
	else
		text[len] = '\0';
	for (size_t at = 0; at < len && !found; at += strlen(text + at) + 1)
		if (!strncmp(text + at, key, sizeof(key) - 1))
			found = text + at + sizeof(key) - 1;
	if (found) {
		snprintf(buf, size, "%s", found);
		found = buf;
	}
	free(text);
	return found;
}

/* 0, or an error. As cudaMemGetInfo counts: the driver reserves 480 MiB of an H100; only _v2 separates them (driver 580). */
static int nvml__memory(const struct nvml *n, void *dev, struct nvml_memory *ret)
{
	struct nvml_memory_v2 mem = { .version = NVML_MEMORY_V2 };

	if (!n->memory_v2 || n->memory_v2(dev, &mem))
		return n->memory(dev, ret);
	*ret = (struct nvml_memory){ .total = mem.total - mem.reserved, .free = mem.free, .used = mem.used };
	return 0;
}

static int is_one_of(const pid_t *pids, size_t cnt, unsigned pid)
{
	for (size_t i = 0; i < cnt; i++)
		if ((unsigned)pids[i] == pid)
			return 1;
	return 0;
}

static void nvml__read_device(struct nvml *n, unsigned index, const pid_t *pids, size_t cnt,
			      const struct tell *tell)
{
	static struct nvml_process procs[PROCS_MAX];
	struct nvml_memory mem;
	unsigned procs_cnt = PROCS_MAX;
	int ordinal = -1;

	if (!n->devs[index].handle || n->processes(n->devs[index].handle, &procs_cnt, procs))
		return;
	for (unsigned i = 0; i < procs_cnt && i < PROCS_MAX; i++) {
		char visible[1024];
		int own;

		if (!is_one_of(pids, cnt, procs[i].pid))
			continue;
		own = nvml_ordinal(visible_devices((pid_t)procs[i].pid, visible, sizeof(visible)), index,
				   n->devs[index].uuid);
		if (own < 0)
			continue;
		ordinal = ordinal < 0 ? own : ordinal;
		if (procs[i].used != NOT_AVAILABLE)
			tell__event(tell, (struct event){ .kind = EV_NVML, .pid = procs[i].pid, .size = procs[i].used,
							  .dev = (uint8_t)(MT_DEV_CUDA0 + own), .aux = index });
	}
	if (ordinal >= 0 && !nvml__memory(n, n->devs[index].handle, &mem))
		tell__event(tell, (struct event){ .kind = EV_NVML, .dev = (uint8_t)(MT_DEV_CUDA0 + ordinal), .addr = mem.total,
						  .size = mem.used, .aux = index });
}

void nvml__read(struct nvml *n, const pid_t *pids, size_t cnt, const struct tell *tell)
{
	for (unsigned i = 0; i < n->devs_cnt; i++)
		nvml__read_device(n, i, pids, cnt, tell);
}
