/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * probes: the sites of plans, set in processes and removed again: one link (uprobe_multi) or one pair of descriptors a site
 * (perf) for each group of sites with the same file and program, and each slice of it.
 *
 * Files are kept open by (device, inode), as long as any process has a probe in them, and passed to the kernel as
 * /proc/self/fd/N: a forked child is attached with its parent's plan even when the parent, and with it /proc/PID/map_files, is
 * gone, and deleted files work.
 */
#ifndef MT_TRACE_PROBES_H
#define MT_TRACE_PROBES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "plan/plan.h"
#include "trace/cookies.h"
#include "trace/covers.h"
#include "trace/links.h"

struct attach_stats; /* trace/trace.h */
struct err;
struct mt_bpf;
struct retire_stats;

struct probes {
	const struct mt_bpf *skel; /* loaded; the caller's */
	int use_perf;
	struct cookies cookies;
	struct links links;
	struct covers covers;
	struct closer *closer;
	struct file {
		uint64_t dev, ino;
		int fd;
	} *files;
	size_t files_cnt, files_cap;
	enum insn_class prog_class[MT_PROG_MAX]; /* cheapest class among the sites set; 0: none */
	uint64_t failed_cnt; /* sites that could not be set */
	uint64_t site_ns; /* time to set one site, from the last ones */
};

void probes__init(struct probes *p, const struct mt_bpf *skel, int use_perf);
void probes__done(struct probes *p); /* removes all and waits for that; zeroed is fine */
/* A program on places of one file, without a plan: 0 or -errno. refs: NULL, or cnt of them. is_first: see links.h. */
int probes__link(struct probes *p, const struct link_key *k, int is_first, const char *path, const uint64_t *offsets,
		 const uint64_t *refs, const uint64_t *cookies, size_t cnt);
/* The implementations of tracer__attach and tracer__retire. */
int probes__attach(struct probes *p, pid_t pid, const struct plan *plan, struct attach_stats *ret, struct err *err);
int probes__retire(struct probes *p, pid_t pid, const struct plan *plan, const uint8_t *wanted,
		   struct retire_stats *ret);
int probes__lower(struct probes *p, pid_t pid, enum mt_level level, uint64_t *ret_taken); /* tracer__lower */
void probes__detach(struct probes *p, pid_t pid); /* in the background */

#endif
