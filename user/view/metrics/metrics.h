/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * metrics: a report for Prometheus, as OpenMetrics 1.0 text or as the older text format 0.0.4. Written by `export --to
 * openmetrics` and `serve`.
 *
 * Series are bounded: labels are pid, rank, device, category, mark, kind and reason, and comm and a container's names in an
 * info metric; no address and no operator. METRICS_PROCS_MAX live processes and METRICS_GONE_MAX that ended have series of
 * their own, all others are added up under pid "other". Label values are cut to METRICS_LABEL_BYTES. At most
 * METRICS_SERIES_MAX samples.
 */
#ifndef MT_VIEW_METRICS_METRICS_H
#define MT_VIEW_METRICS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "timeline/report.h"

#define METRICS_PROCS_MAX 256
#define METRICS_GONE_MAX 32
#define METRICS_LANES_MAX 512 /* pairs of process and device */
#define METRICS_LABEL_BYTES 128
/* Of a lane 13, of a device 13 and 20, of a process 16; 66 devices, kinds of events, reasons, single ones. */
#define METRICS_SERIES_MAX (13 * (METRICS_LANES_MAX + 66) + 33 * 66 + 17 * (METRICS_PROCS_MAX + METRICS_GONE_MAX + 1) + 400)

struct outbuf;

enum metrics_form { METRICS_OPENMETRICS = 0, METRICS_TEXT };

/* Lanes written before: a series that has been written stays when it is 0. Zeroed at first. */
struct metrics_seen {
	struct {
		uint32_t pid; /* 0: other */
		uint8_t dev;
		uint16_t cats; /* bits */
	} lanes[METRICS_LANES_MAX];
	size_t cnt;
};

struct metrics_opts {
	enum metrics_form form;
	uint64_t at_ms; /* each sample carries this time since the epoch; 0: none does */
	const struct report_lane *lanes; /* in place of the report's; NULL: the report's */
	size_t lanes_cnt;
	struct metrics_seen *seen; /* of a running trace; NULL: only values that are not 0, and no `up` */
	uint64_t memory_bytes, memory_available_bytes; /* of the machine; 0: unknown */
	uint64_t age_ns; /* with seen: the report's age */
};

/* Whole, with # EOF in OpenMetrics. */
void metrics__write(struct outbuf *o, const struct report *r, const struct metrics_opts *opts);
/* Processes that are still followed. */
size_t metrics_up(const struct report *r);

#endif
