/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gpu: what is known of devices beside their blocks: the driver's layer (segments.h), the streams of blocks, and NVML's
 * numbers. NULL everywhere until the first such event.
 */
#ifndef MT_MODEL_GPU_H
#define MT_MODEL_GPU_H

#include "model/core/blocks.h"
#include "model/segments/segments.h"

#define STREAMS_MAX 62 /* of one model; numbered from 1 */
#define STREAM_OTHER 63
#define NVML_PROCS_MAX 1024
#define COUNTED_MAX 1024

struct nvml_dev {
	bool seen, procs;
	uint64_t used, used_peak, own, own_peak, total;
};

struct nvml_proc {
	uint32_t pid;
	uint8_t dev;
	uint64_t bytes;
};

/* The counters of a process's caching allocator for a device, beside the traced sums. */
struct counted_dev {
	uint32_t pid; /* 0: it has ended */
	uint8_t dev;
	uint8_t matches; /* readings that matched the traced sums: COUNTED_SURE different ones are enough */
	bool has_reported;
	uint64_t reported_allocated, reported_reserved;	    /* the last totals */
	uint64_t matched_allocated, matched_reserved; /* the last match */
	uint64_t read_peak, read_reserved_peak;	    /* as last read */
	uint64_t allocated_peak, reserved_peak;	    /* the highest that was read */
	uint64_t resets;
};
#define COUNTED_SURE 3

struct gpu {
	struct segments *segs;
	uint32_t streams[STREAMS_MAX];
	unsigned streams_cnt;
	bool is_async[256], is_request[256]; /* devices that had blocks from there */
	struct nvml_dev nvml[256];
	struct nvml_proc *nvml_procs;
	size_t nvml_procs_cnt;
	struct counted_dev *counted;
	size_t counted_cnt;
};

struct gpu *gpu__new(void); /* NULL: no memory */
void gpu__free(struct gpu *g); /* NULL is fine */
unsigned gpu__stream(struct gpu *g, uint32_t stream); /* its number, for struct block */
bool gpu__stream_of(const struct gpu *g, const struct block *b, uint32_t *ret); /* false: not known */
uint8_t gpu__only_dev(const struct gpu *g, uint32_t pid); /* as segments__only_dev */
bool gpu__nvml(struct gpu *g, const struct event *ev); /* EV_NVML of a device; false: too many processes */
/* EV_COUNTERS, and the TOTALS that it is compared with; false: too many processes. */
bool gpu__counters(struct gpu *g, const struct event *ev);
void gpu__reported_totals(struct gpu *g, const struct event *ev);
/* Of a device: the processes whose counters are trusted, and the highest of each peak. */
void gpu__counted(const struct gpu *g, uint8_t dev, struct report_segments *ret);
void gpu__drop_pid(struct gpu *g, uint32_t pid);

#endif
