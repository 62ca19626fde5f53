/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Memory that was refused, and processes that ended by a signal. */
#ifndef MT_TIMELINE_REPORT_OOM_H
#define MT_TIMELINE_REPORT_OOM_H

#include <stddef.h>
#include <stdint.h>
#include "timeline/report_memory.h"

#define REPORT_OOM_OPS 8
#define REPORT_OOM_BLOCKS 8
#define REPORT_OOM_SEGS 8
#define REPORT_OOMS_MAX 4


enum report_oom_kind { OOM_DEVICE = 1, OOM_HOST = 2, OOM_DEATH = 3 };

struct report_oom_op {
	char *name; /* "": no operator was open */
	uint64_t live;
};

/* What things were like when memory was refused, or the process ended by a signal. */
struct report_oom {
	uint8_t kind; /* enum report_oom_kind */
	uint8_t dev;  /* refused by; DEATH: MT_DEV_NONE */
	uint8_t killed; /* DEATH: by the kernel's OOM killer, as it marked it, or as it took a process in that second */
	uint8_t marked; /* the former: certain */
	uint64_t ts_ns;
	uint32_t pid, tid;
	char *comm;
	char *op, *region;	  /* innermost of the thread that asked; "" none */
	char *module, *root;	  /* whose forward or backward asked, and the label of its root; NULL: none, or not known */
	uint8_t phase;		  /* enum phase, of the module */
	char *api;		  /* the call that failed, "" not seen */
	uint32_t code;		  /* its result */
	uint32_t exit_status;	  /* DEATH: wait status */
	uint64_t times;		  /* how often within a moment; 1 or more */
	uint64_t asked;
	uint64_t live;		  /* of that device; DEATH: of the process, all framework devices (or malloc) */
	uint64_t allocated, reserved, unused, largest_free; /* of the device, if known */
	uint64_t private_free; /* of reserved: in no block, and private pools' alone (report_memory.h) */
	uint64_t driver;
	uint64_t cats[CAT_MAX];	  /* live by category */
	struct report_oom_op ops[REPORT_OOM_OPS]; /* most live bytes first */
	size_t ops_cnt;
	struct report_block blocks[REPORT_OOM_BLOCKS]; /* largest first */
	size_t blocks_cnt;
	struct report_seg_row segs[REPORT_OOM_SEGS]; /* of a device: the process's largest first */
	size_t segs_cnt;
	uint64_t rss[MT_RSS_KINDS], rss_total;
};

struct report_ooms {
	struct report_oom rows[REPORT_OOMS_MAX]; /* the last ones of those that weigh most, oldest first */
	size_t cnt;
	uint64_t total; /* final ones, all of them */
};

#endif
