/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * trace: the only room that knows libbpf and the BPF objects. Loads them, times its own probes on itself, sets the sites of a
 * plan in a process, provides raw ring records and counters.
 *
 * Nothing is left behind: every probe is a link that the kernel removes when its file descriptor is closed, by tracer__free or
 * by the end of memtrace, whatever its cause.
 */
#ifndef MT_TRACE_TRACE_H
#define MT_TRACE_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/names.h"
#include "memtrace/event.h"
#include "memtrace/loss.h"
#include "plan/plan.h"

struct err;
struct mt_catch; /* include/memtrace/shared.h */
struct mt_module_proc;
struct mt_py_proc;
struct tracer;

#define TRACE_RING_BYTES_LEAST (32ull << 20) /* by default: more CPUs have more, see rings.c */

struct tracer_opts {
	uint64_t ring_bytes; /* all rings together, rounded down to powers of two; 0 = as the machine needs */
	uint64_t min_size;   /* host allocations below this are not reported */
	int force_perf;	     /* one perf uprobe a site, as on kernels before 6.6 */
	int kernel;	     /* load the kernel-side programs (sys_exit, exit, oom) */
	unsigned stacks;     /* enum mt_stacks: allocations from stack_size bytes on get a stack; CATCH: tracer__catch */
	uint64_t stack_size;
	uint64_t stack_rate; /* native stacks a second */
};

#define RIGHTS_NEEDED "CAP_SYS_ADMIN and CAP_SYS_PTRACE" /* sufficient everywhere */
/* -EPERM not allowed, -ENOTSUP no BTF or too old a kernel; each with a hint. Takes ~50 ms. */
int tracer__new(struct tracer **ret, const struct tracer_opts *opts, struct err *err);
void tracer__free(struct tracer *t); /* detaches everything; NULL is fine */

#define ATTACH_MORE_MAX	   16
#define ATTACH_REST_NS_MAX 10000000ull

/* The result of a plan in one process. */
struct attach_stats {
	uint32_t attached, failed;
	uint32_t set; /* of those attached; the others were set before, by another plan */
	uint32_t classes_left_out; /* classes of objects without room */
	uint32_t slots_left_out; /* symbols that are probed, but whose hits are not counted */
	uint32_t clashed; /* of those failed: refused because another tool has a probe there without its semaphore */
	uint32_t attached_by_source[SRC_CNT], found_by_source[SRC_CNT]; /* index: bit number of enum source */
	uint64_t took_ns, longest_ns; /* of all calls; of the longest; both include grace periods, in which nobody waits */
	uint32_t slices; /* calls that set something */
	int way; /* 0 uprobe_multi, 1 perf uprobes */
	int first_err; /* why the first site that failed did */
	int is_partial; /* its operators are not reported yet */
	size_t at; /* sites of the plan before this one have had their turn */
	uint64_t budget_ns; /* in: 0: all sites in one call; else it ends after about this long, waits for a CPU excluded */
	uint64_t rest_ns; /* in: between slices of one call */
	uint32_t more; /* in: this many slices more, each after rest_ns: for a caller that came late */
	const uint8_t *wanted; /* in: NULL: all sites; or one byte a site of the plan: 1 = to be set */
	uint8_t *site_failed; /* in: NULL, or one zeroed byte a site of the plan; out: 1 = could not be set */
};

/*
 * Sets every site of `plan` in process `pid`. May be called again for the same pid (new libraries). Sites that cannot be set
 * are counted and logged; it is an error (with the first reason) only when none could be set although there were some.
 *
 * While sites are set, a thread of that process that hits a probe, or maps memory, waits: so for a running process a budget is
 * given, and a call that returns 1 has left sites for the next one, with the same *ret; no call goes on from marks of steps to
 * others, or from others to operators. Until the first operators of a process are all set, none is reported: half of them would
 * give a wrong data flow.
 */
int tracer__attach(struct tracer *t, pid_t pid, const struct plan *plan, struct attach_stats *ret,
		   struct err *err); /* *ret: zeroed, or with the inputs; then as the last call left it */
/*
 * Removes those of the plan's operators that are not wanted (a byte a site) and that were set with all others at once. No hit
 * of the others is lost or reported twice meanwhile. 0 or -errno: then they stay. 1: the budget was spent, call it again, with
 * what is wanted then and the same *ret.
 */
struct retire_stats {
	uint32_t taken, kept; /* in links that lost some */
	uint64_t took_ns;     /* until the used ones were set again; the others are removed in the background */
	uint64_t budget_ns;   /* in: as in attach_stats */
};
int tracer__retire(struct tracer *t, pid_t pid, const struct plan *plan, const uint8_t *wanted,
		   struct retire_stats *ret); /* *ret: zeroed, or with a budget */
/*
 * Removes sites of a higher level from a process (plan.h: site__level), in the background; *ret_taken: sites. 1: some are still
 * being removed, ask again before anything is set there; 0: all are gone. -EOPNOTSUPP: perf uprobes are removed too slowly.
 */
int tracer__lower(struct tracer *t, pid_t pid, enum mt_level level, uint64_t *ret_taken);
/* When an operator's schema was first looked up since the last call; 0: none was. */
uint64_t tracer__looked_up(struct tracer *t);
void tracer__detach(struct tracer *t, pid_t pid);
/* Classes of objects in the kernel's map, of all processes that are attached. */
size_t tracer__classes_cnt(const struct tracer *t);
/* From now on the Python frames of the process are read; NULL: no longer. -E2BIG: too many processes. */
int tracer__python(struct tracer *t, pid_t pid, const struct mt_py_proc *how);
/*
 * From now on allocations of these sorts are caught (MT_EV_STACK, MT_STACK_F_CAUGHT), if tracer__python was called for the
 * process; NULL: no longer. -EINVAL: longer, or more of them, than shared.h allows; or no CATCH in opts.stacks. -E2BIG: too
 * many processes; -ENOENT: there was nothing to remove.
 */
int tracer__catch(struct tracer *t, pid_t pid, const struct mt_catch *what);
/* From now on the module whose forward runs is reported for the process; NULL: no longer. -E2BIG: too many processes. */
int tracer__modules(struct tracer *t, pid_t pid, const struct mt_module_proc *how);
/* A place of allocations (struct mt_rec_place) is of no interest: it is no longer reported. 0 or -errno. */
int tracer__plain_place(struct tracer *t, uint64_t hash);
/*
 * That module has a name, or no longer one; obj 0: modules have names, so a module without one is skipped for the one around
 * it. -E2BIG: too many.
 */
int tracer__module(struct tracer *t, pid_t pid, uint64_t obj, int has_name);
/* From now on kernel-side programs see `pid`. */
int tracer__follow(struct tracer *t, pid_t pid, struct err *err);

/* How far the rings were read. */
struct drained {
	uint64_t until_ns; /* everything reserved up to then was passed on, from every ring */
	int more;	   /* the time was over before the present end was reached */
};
/*
 * Passes the waiting records of the rings to fn, for budget_ns at most (UINT64_MAX: all): ring by ring, each in the order of
 * reserve, each with its share of the time (trace/rings.h). fn gets bytes that only our BPF programs wrote, yet checks length
 * and kind. Returns the number of records, or the first negative result of fn.
 */
int tracer__drain(struct tracer *t, uint64_t budget_ns, int (*fn)(void *ctx, const void *rec, size_t len), void *ctx,
		  struct drained *ret);
uint64_t trace_ring_bytes(void); /* all rings together, by default */

struct trace_counters {
	uint64_t hits[MT_PROG_MAX];
	uint64_t cost_ns[MT_PROG_MAX]; /* hits × calibrated cost of one */
	uint64_t loss[MT_LOSS_MAX];
};
void tracer__counters(const struct tracer *t, struct trace_counters *ret);
/* Symbols of programs other than the operators', with how often each fired so far. */
int tracer__each_fired(const struct tracer *t, void (*fn)(void *ctx, name_id sym, uint64_t cnt), void *ctx);
/* The instructions that can be probed here, and their cost; tried at the start. For plans. */
const struct insn_classes *tracer__insn_classes(const struct tracer *t);
/* Calibrated cost of one hit in ns, trap included, on the instruction class of the sites attached. */
unsigned tracer__cost_ns(const struct tracer *t, enum mt_prog prog);

/*
 * What another process needs to read all of that (trace/taps.h). The descriptors stay the tracer's. Its rings are that
 * process's from now on: no more tracer__drain.
 */
struct taps_desc;
struct taps_progs;
void tracer__taps(struct tracer *t, struct taps_desc *ret, int *fds /* TAPS_FDS_MAX */);
void tracer__progs(const struct tracer *t, struct taps_progs *ret);

struct trace_features {
	int has_uprobe_multi; /* kernel >= 6.6, and its pid filter covers all threads */
	int has_perf_uprobe;
	char error[256];      /* why loading failed, "" if it did not */
	struct insn_classes classes; /* tried on this machine; is_tried 0: not even that */
};
/* The result of tracer__insn_classes, without a tracer. 0 or -errno, and nothing in *ret. */
int trace_insn_classes(struct insn_classes *ret, struct err *err);
/* "v1.1" */
const char *trace_libbpf_version(void);
/* Loads a small program and tries. 0 even when nothing works: see the fields. */
int trace_probe_features(struct trace_features *ret);

#endif
