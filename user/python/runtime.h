/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * runtime: the CPython interpreter of a process: which version, where its _PyRuntime is, and how a
 * thread finds its own PyThreadState. Reads the process's memory and files; writes nothing.
 *
 * The thread state is found as Python itself does from C: in the thread's own pthread_getspecific()
 * table, by a key that is found by looking for a known thread's state in its table. (The address of
 * the thread-local variable of 3.12 and later is in no library's symbols.)
 */
#ifndef MT_PYTHON_RUNTIME_H
#define MT_PYTHON_RUNTIME_H

#include <stdint.h>

#include "python/mem.h"
#include "python/offsets.h"

struct err;
struct lib;
struct target;

struct py_runtime {
	uint32_t version; /* PY_VERSION_HEX; its low half is 0 if known only from the file's name (3.10) */
	const struct py_frame_offsets *at;
	uint64_t addr;	    /* of _PyRuntime */
	uint64_t code_type; /* of PyCode_Type */
	uint64_t eval_start, eval_end; /* of _PyEval_EvalFrameDefault; 0: no symbol */
	const struct lib *lib; /* the file that has the interpreter; as good as the target's libraries */
	uint64_t bias;	       /* to add to that file's vaddrs */
};

/*
 * 0; -ENOENT: no Python is mapped; -ENOTSUP: one that is not known (too old, too new, free-threaded),
 * with a message. py_runtime__tsd shows whether it has been started.
 */
int py_runtime__find(struct py_runtime *ret, const struct target *t, const struct py_mem *mem, struct err *err);

/* Where in a thread's memory, from its struct pthread: the table of `table + 8 * (key / 32)`, of 32 {sequence, value}. */
struct py_tsd {
	uint32_t table, key;
};

#define PY_INTERPS_MAX 16 /* that are looked at; the newest is the first of a list */

/* The first thread of an interpreter: checked against each other. 0, or -EAGAIN: not started yet, or just then changing. */
int py_runtime__first_thread(const struct py_runtime *rt, const struct py_mem *mem, uint64_t interp, uint64_t *ret_tstate);
/* From any thread of any interpreter. 0; -EAGAIN as above, or no thread has its state where it should be. */
int py_runtime__tsd(const struct py_runtime *rt, const struct target *t, const struct py_mem *mem, struct py_tsd *ret);

#endif
