/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * survey: the jobs of this machine, as plain data: what `memtrace ps` shows and --name chooses from. Filled by live/survey.c.
 * Rows have one size, so that another process can make them. All texts come from the processes.
 */
#ifndef MT_TIMELINE_SURVEY_H
#define MT_TIMELINE_SURVEY_H

#include <stddef.h>
#include <stdint.h>

#define SURVEY_JOBS_MAX 4096
#define SURVEY_CMDLINE_BYTES 512

struct survey_job {
	uint32_t pid, ppid, uid;
	uint32_t forks; /* processes that it forked and that run the same command: DataLoader's workers, say */
	uint64_t rss;
	int64_t rank, world; /* -1: not known */
	uint8_t is_fork;     /* it is one of those itself */
	uint8_t is_seen;     /* 0: it may not be looked at; then only pid, ppid, uid, rss and the names are known */
	uint8_t is_named;    /* as was asked for */
	uint8_t has_torch, is_traced;
	uint8_t is_cut;	     /* it has more mappings than are read: whether it is a job is not known */
	char user[40], comm[64], cmdline[SURVEY_CMDLINE_BYTES];
	char torch[40];	 /* "2.13.0+cpu", "" not known */
	char layout[24]; /* "2.4 to 2.15": the layout of tensors that this version was tried with; "" none */
};

struct survey {
	struct survey_job *jobs; /* the largest first, those that may not be looked at last; on the heap */
	size_t cnt;
	uint64_t more;	 /* beyond SURVEY_JOBS_MAX */
	uint64_t unseen; /* processes of others that may not be looked at, and are no Python */
	int may_look;	 /* at all processes of the machine */
};

#endif
