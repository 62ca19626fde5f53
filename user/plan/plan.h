/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * plan: which probes to set in one process: sites, in which file, at which instruction, running
 * which program with which cookie, at what expected cost. Pure over (target, options): it sets
 * nothing and needs no root beyond reading the target's files.
 *
 * The catalog (catalog.c) is one table: library × symbol → program, source. The prologue decoder
 * (prologue.c) moves a site from a symbol's first instruction to the cheapest one that every call
 * passes while the arguments are still where the calling convention put them.
 */
#ifndef MT_PLAN_PLAN_H
#define MT_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/names.h"
#include "base/vtables.h"
#include "memtrace/event.h"
#include "arch/arch.h"

struct err;
struct target;

/* Sources that --probes chooses; bits. */
enum source {
	SRC_FRAMEWORK = 1 << 0,
	SRC_OPS = 1 << 1,
	SRC_REGIONS = 1 << 2,
	SRC_KERNEL = 1 << 3,
	SRC_HOST = 1 << 4,
	SRC_USDT = 1 << 5,
	SRC_FLOW = 1 << 7, /* operators with their tensor arguments, node applies: replaces ops and views */
	SRC_VIEWS = 1 << 6, /* operators that only make views: no byte is allocated or freed in them */
	SRC_SEGMENTS = 1 << 8, /* memory API of GPUs: runtime, driver, NCCL */
};
#define SRC_CNT 9
#define SRC_DEFAULT (SRC_SEGMENTS | SRC_FRAMEWORK | SRC_FLOW | SRC_REGIONS | SRC_KERNEL | SRC_USDT)
#define SRC_ALL (SRC_DEFAULT | SRC_OPS | SRC_HOST | SRC_VIEWS)

const char *source_name(enum source one);	      /* "framework" … */
/* "framework,ops" → bits. -EINVAL with a message: an unknown name, or none. */
int sources_parse(const char *text, unsigned *ret_mask, struct err *err);

struct site {
	uint32_t lib;		 /* index into plan->libs */
	uint32_t prog;		 /* enum mt_prog */
	uint64_t offset;	 /* file offset of the probed instruction */
	uint64_t ref_ctr_offset; /* USDT semaphore, 0 = none */
	uint64_t cookie;	 /* OP: name_id.v; HOST_*: enum mt_host_fn; USDT, SEG_*: index into their specs; else 0 */
	uint64_t guard;		 /* operators: address in the process of a byte that is 0 until it is called; 0: unknown */
	name_id sym;		 /* its name for people: "aten::add.Tensor", "malloc", "memtrace:op_begin" */
	enum source source;
	uint8_t is_ret;		 /* a return probe */
	uint8_t insn_class;	 /* enum insn_class */
	uint8_t skipped;	 /* bytes after the symbol's first one */
	uint16_t cost_ns;	 /* expected for one hit, by its class */
	char insn[SITE_INSN_LEN]; /* as objdump has it */
};

/* Marks of steps: first in a plan, and set before anything else. */
static inline int site__is_mark(const struct site *s)
{
	return s->prog == MT_PROG_REGION_BEGIN || s->prog == MT_PROG_REGION_END ||
	       (s->prog == MT_PROG_FLOW_BOXED && (s->cookie & (MT_BOXED_REGIONS | MT_BOXED_MARKED)) == MT_BOXED_REGIONS);
}

/* The lowest level with this site (docs/sampling.md): segments, refusals; marks of steps; allocations and frees; the rest. */
static inline enum mt_level site__level(const struct site *s)
{
	switch (s->prog) {
	case MT_PROG_FW_OOM:
	case MT_PROG_FW_USAGE_OOM:
	case MT_PROG_SEG_ENTER:
	case MT_PROG_SEG_RET:
	case MT_PROG_USDT:
		return MT_LEVEL_STILL;
	case MT_PROG_FW_NEW:
	case MT_PROG_FW_DELETE:
	case MT_PROG_FW_USAGE:
	case MT_PROG_HOST_FREE:
	case MT_PROG_HOST_ENTER:
	case MT_PROG_HOST_RET:
	case MT_PROG_HOST_EXIT:
		return MT_LEVEL_BLOCKS;
	default:
		return site__is_mark(s) ? MT_LEVEL_WATCH : MT_LEVEL_FULL;
	}
}

struct plan_lib {
	uint64_t dev, ino;
	char *path;	 /* for people */
	int fd;		 /* of that file, as it was planned: mappings come and go while a program starts */
	uint64_t size, mtime_ns; /* as it was planned */
};

/* A site whose guard is known (arch/guard.h). */
struct plan_guard { /* begins with addr: u64_cmp */
	uint64_t addr;
	uint32_t site; /* index into plan->sites */
};

struct flow_layout {
	const char *torch; /* versions: "2.4 to 2.15"; NULL: no tensor can be read */
	struct mt_flow_layout at;
	uint16_t node_seq; /* Node → sequence_nr; only of plan__tensors: probes do not need it */
};

/* The name of the layout that was tested with this version of torch ("2.13.0+cpu"); NULL: none. */
const char *flow_layout_of(const char *version);
char *flow_layouts_words(char *buf, size_t size); /* all of them: "1.13, 2.4 to 2.15" */

/* Per source: numbers of functions in the catalog, and found in the libraries. */
struct plan_cover {
	enum source source;
	uint32_t wanted, found;
};

struct plan {
	struct plan_lib *libs;
	size_t libs_cnt;
	struct site *sites; /* grouped by (lib, prog) */
	size_t sites_cnt;
	struct plan_guard *guards; /* sorted by addr */
	size_t guards_cnt;
	struct vtable *vtables; /* sorted by addr */
	size_t vtables_cnt;
	struct mt_usdt_spec *specs; /* this plan's own; the tracer gives them final indices */
	size_t specs_cnt;
	struct mt_seg_spec *seg_specs; /* likewise, by cookie of SEG_* sites */
	size_t seg_specs_cnt;
	uint64_t comm_start, comm_end; /* code of the communication library in the process; 0: none */
	struct mt_flow_spec *flow_specs; /* by spec index in the cookie of FLOW_OP sites; shared between sites */
	size_t flow_specs_cnt;
	struct flow_vtable *flow_vtables; /* vtable pointer values in this process */
	size_t flow_vtables_cnt;
	struct flow_layout flow_layout;
	uint32_t flow_args_unread; /* FLOW_OP sites whose signature is not understood: no arguments */
	struct plan_cover covers[SRC_CNT];
	size_t covers_cnt;
	char **notes; /* sentences about what will not be visible and why */
	size_t notes_cnt;
	int is_tried;		 /* whether probes harm was tried on this kernel, else assumed */
	uint32_t unsafe_cnt;	 /* sites left out because a probe there could change the program's data */
	uint32_t files_left_out; /* not readable to the end, or too many: their content is not seen */
	uint32_t ops_left_out;	 /* operators that can neither allocate, write nor view */
	uint32_t views_left_out; /* operators that only make views, without SRC_VIEWS */
};

struct plan_opts {
	unsigned sources;
	const char *const *usdt; /* --usdt PROVIDER:NAME[:ARG=meaning,…] */
	size_t usdt_cnt;
	int keep_idle;	   /* operators that are never called keep their probes: no guards */
	int by_windows;	   /* sites above MT_LEVEL_WATCH come and go: marks of steps are to be cheap without them */
	int only_new_libs; /* plan just what target__refresh found newly mapped */
	const struct insn_classes *classes; /* of this kernel; NULL: assumed ones */
	struct plan_cache *cache; /* finds of earlier plans, with the same usdt and keep_idle; may be NULL */
	const int *stop; /* NULL, or: once it is not 0, no further file is looked at */
};

/* plan/cache.h. One thread at a time. */
struct plan_cache *plan_cache__new(void); /* NULL: no memory */
void plan_cache__free(struct plan_cache *c);

/*
 * Names of operators, nodes and symbols are added to `names`. -ENOENT with a hint when the process
 * has nothing to probe for the sources asked (unless only_new_libs, which then gives an empty plan).
 */
int plan__build(struct plan **ret, struct target *t, const struct plan_opts *opts, struct names *names,
		struct err *err);
void plan__free(struct plan *p);
/* Moves its names from table `from` to table `to`. 0 or -ENOMEM. */
int plan__rename(struct plan *p, const struct names *from, struct names *to);
/*
 * Just before the plan is set: removes the sites of files that have changed since they were planned. Returns how many files; a
 * note names each.
 */
unsigned plan__drop_changed(struct plan *p);
/*
 * Only what is needed to read tensors: flow_layout and flow_vtables of the plan, nothing else. -ENOENT: no torch is mapped;
 * -ENOTSUP: its layout is unknown.
 */
int plan__tensors(struct plan **ret, struct target *t, struct err *err);
/*
 * Thread-local variables of torch: the place in a process of {number of the library, offset}, as its loader wrote them, and
 * what to add to that offset.
 */
struct tls_place {
	uint64_t slot; /* 0: not found */
	uint64_t add;
};
struct torch_tls {
	struct tls_place seq;  /* at::sequence_number's counter */
	struct tls_place grad; /* byte of c10::AutogradState whose lowest bit is the grad mode */
};
void plan__torch_tls(struct torch_tls *ret, struct target *t);

#endif
