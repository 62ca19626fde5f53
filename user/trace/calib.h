/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * calib: the cost of one hit of each program on this machine, measured on memtrace's own process with the very programs that
 * will run in the target, on functions of its own (arch/own.h). The self test measures how much other instructions differ
 * (selftest.h).
 *
 * The calls are made from a second thread: on kernels whose uprobe_multi pid filter only knew the main thread (6.6 to 6.9,
 * fixed by 46ba0e49b642) nothing fires there, and the caller falls back.
 */
#ifndef MT_TRACE_CALIB_H
#define MT_TRACE_CALIB_H

#include <stdint.h>

#include "memtrace/event.h"
#include "plan/plan.h"

struct calib_ops {
	/* Sets `prog` on file offset `offset` of our own program, `path`, in our own process; 0 or -errno.
	 * The caller removes all of them after calib_run. */
	int (*attach)(void *ctx, enum mt_prog prog, const char *path, uint64_t offset, int is_ret);
	void (*discard)(void *ctx); /* discards waiting records */
	uint64_t (*hits)(void *ctx, enum mt_prog prog);
	void *ctx;
};

/* With these in the kernel, flow's programs find a tensor in the arguments of the calls here. */
extern const struct mt_flow_spec calib_flow_spec;
extern const struct mt_flow_layout calib_flow_layout;
extern const struct flow_vtable calib_flow_vtables[3];

struct calib {
	unsigned prog_ns[MT_PROG_MAX];	 /* on an instruction of class INSN_OWN, trap included */
};

/* -EOPNOTSUPP: attached but nothing fired in the thread. Other -errno: could not attach. */
int calib_run(struct calib *ret, const struct calib_ops *ops);
/* Cost of one hit of `prog` on a site of that class. */
unsigned calib__cost_ns(const struct calib *c, const struct insn_classes *classes, enum mt_prog prog, enum insn_class class);
/* Walks over as many bytes of data and of code as the first-level caches hold. */
void calib_pollute(void);
/* Where code of this program lies in its file, and a name of that file: 0 or -errno. */
int calib_offset_of(const void *code, uint64_t *ret, char path[64]);
/* Time of `calls` mmap + munmap pairs, per call, in ns: called with and without the tracepoints on. */
unsigned calib_time_mmap(void);

#endif
