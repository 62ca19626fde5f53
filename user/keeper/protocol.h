/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * protocol: the messages between the two halves of memtrace. Private to keeper/.
 *
 * Two channels: one for the probes (one request may take a second), one for looks at processes (microseconds, requested by any
 * thread). Each is a pair of SOCK_SEQPACKET sockets and an area of memory that both have mapped since before the fork, so that
 * neither can take it away. A request is one `keep_request`, its reply one `keep_reply`, with descriptors; longer data are in
 * the area. Both are the same program, so layouts need no version; but the asking half may have been taken over by what it
 * reads, so the keeper copies out of the area first and then checks every number.
 */
#ifndef MT_KEEPER_PROTOCOL_H
#define MT_KEEPER_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "plan/plan.h"
#include "target/door.h"
#include "trace/taps.h"
#include "trace/trace.h"

enum keep_op {
	/* about probes; len: bytes in the area */
	KEEP_TRACE = 1, /* area: struct tracer_opts. Replies struct taps_desc in the area, and its descriptors */
	KEEP_UNTRACE,	/* all probes are gone when it replies */
	KEEP_ATTACH,	/* pid; area: attach_stats, a plan (wire_plan.h). Replies keep_attached, a byte per site: failed */
	KEEP_RETIRE,	/* pid; area: retire_stats, a plan. Replies keep_retired */
	KEEP_LOWER,	/* pid; arg: enum mt_level. val: number of sites removed */
	KEEP_DETACH,	/* pid */
	KEEP_FOLLOW,	/* pid */
	KEEP_PYTHON,	/* pid; area: struct mt_py_proc, or nothing */
	KEEP_CATCH,	/* pid; area: struct mt_catch, or nothing */
	KEEP_MODULES,	/* pid; area: struct mt_module_proc, or nothing */
	KEEP_MODULE,	/* pid; arg: object, has_name */
	KEEP_PLAIN_PLACE, /* pid; arg: hash */
	KEEP_FIRED,	/* replies len bytes of struct keep_fired */
	KEEP_USAGE,	/* val: CPU time in ns, resident bytes, of the keeper itself */
	/* about looks at processes */
	KEEP_FILE,     /* pid; arg: enum door_file. A descriptor */
	KEEP_TEXT,     /* pid; arg: enum door_file, most bytes. Replies its text at KEEP_ANSWER */
	KEEP_EXE,      /* pid. Replies struct door_exe at KEEP_ANSWER */
	KEEP_LIB,      /* pid; arg: dev, ino, start, end; area: path with its NUL. A descriptor */
	KEEP_READ,     /* pid; arg: bytes; area: len bytes of struct iovec. Replies the bytes at KEEP_ANSWER */
	KEEP_SCRIPT,   /* pid; arg: offset, bytes; area: path with its NUL. Replies struct door_script, bytes at KEEP_ANSWER */
	KEEP_PAGES,    /* pid; area: len bytes of struct iovec. val: bytes of its own pages */
	KEEP_SIDEBAND, /* arg: cpu, bytes of the ring. A descriptor */
	KEEP_LOCK,     /* pid; arg: its start, how long to wait. A descriptor, or none where there is no place for locks */
};

#define KEEP_ARGS 4

struct keep_request {
	uint32_t op; /* enum keep_op */
	int32_t pid;
	uint64_t arg[KEEP_ARGS];
	uint64_t len; /* bytes of the area that belong to the request */
	int32_t tree; /* looks: the tree whose share of places it takes if it is held up (lookers.h) */
	uint32_t pad;
};

struct keep_reply {
	int32_t r; /* >= 0 or -errno */
	uint32_t fds_cnt;
	uint64_t val[2];
	uint64_t len; /* bytes of the area */
	struct err err; /* sent only where r < 0 */
};

struct keep_attached {
	struct attach_stats st; /* its pointers are meaningless */
	struct taps_progs progs;
};

struct keep_retired {
	struct retire_stats st;
	struct taps_progs progs;
};

struct keep_fired {
	uint64_t cnt;
	name_id sym;
};

#define KEEP_PROBES_AREA (512ull << 20) /* the largest plan and its answer; pages are taken when touched */
#define KEEP_READ_MAX DOOR_TEXT_MAX
#define KEEP_ANSWER 8192 /* in the area of looks: after the ranges, or a path */
#define KEEP_LOOKS_AREA (KEEP_ANSWER + KEEP_READ_MAX)
#define KEEP_FIRED_MAX 4096

#endif
