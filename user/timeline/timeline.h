/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * timeline: the model's decisions, one after the other: the stream that exporters write.
 * The terms are those of torch.profiler's memory profiler (torch/profiler/_memory_profiler.py, 2.13).
 */
#ifndef MT_TIMELINE_TIMELINE_H
#define MT_TIMELINE_TIMELINE_H

#include "base/names.h"
#include <stdbool.h>
#include <stdint.h>

enum tl_kind {
	TL_PREEXISTING = 1, /* seen without an allocation: lived before the attach */
	TL_CREATE = 2,
	TL_VERSION = 3, /* INCREMENT_VERSION */
	TL_DESTROY = 4,
	TL_OP = 5,	/* an operator or backward node was entered; a node is its own region too */
	TL_REGION = 6,	/* a region was entered */
	TL_REGION_END = 7,
	TL_STEP = 8,	/* a step mark; its number is in ptr */
	TL_OOM = 9,
	TL_TAG = 10,	/* a block was tagged; the tag is in region; id 0 if the block is not known */
	TL_LABEL = 11,	/* the category of a living block is another one now, from its version's allocation on */
	/* with model_opts.timeline_nodes only: */
	TL_NODE = 12,	/* a node of the data-flow graph: ts_ns is its start, op its leaf frame's name (none:
			   memory that came or went outside of any), edges its blocks. Reported when its labels
			   are final, steps later, in the order in which nodes were closed. */
	TL_FINAL = 13,	/* of block id, versions from `version` up to the next TL_FINAL's of that block have
			   this category for good. Reported when nothing more can be learned, ascending by
			   version, once a block. Blocks that no operator was given have none (extended: WORKSPACE). */
	TL_STACK = 14,	/* --stacks: a node of the tree of stacks, before its first use: node = its number (1, 2 …), parent =
			   that of the frame that called it (0: none), function, file, line (0: not known), frame_kind */
	TL_MARK = 16,	/* a phase begins: version = enum tl_mark, ptr = number of the step that is over (MARK_STEP) */
	TL_NAME = 15,	/* a block has a name in Python, or another one: op its path ("layers.0.weight"), region the class
			   of the module that the path begins at, key, type; depth is its enum ev_tensor */
	TL_GAP = 18,	/* version 1: from now on nothing is known, 0: all is again (docs/sampling.md) */
	TL_COMPILED = 19, /* torch.compile has compiled, reported afterwards: begin_ns (CLOCK_MONOTONIC), took_ns, function,
			     reason = why again (none: the first time), compile_id, failed = why it made no code (none: it
			     did), added = bytes at most, TL_SIZE_UNKNOWN: not known, step = the one under way (0: not
			     known), compiled */
	TL_LEARNED = 20, /* block id was allocated while no operator was seen, and its step is over: `learned` is taken from the
			    same allocation of a traced step (docs/sampling.md); final */
	TL_MODULE = 22,	/* module number id is called: op its path, region the root's label. Of a module that made blocks before
			   Python was read this comes after them */
	TL_PINNED = 21, /* the driver has pinned memory of the host (ptr, size), version 1; it is pinned no more: 0. id is the
			   segment's: never reused, from 1 */
	TL_TOTALS = 31, /* with model_opts.timeline_ops: a caching allocator's own totals: ptr = allocated, size = reserved */
};

/* What a thread does. Numbers are in recordings (EV_WAS_MODULE). */
enum phase {
	PHASE_OTHER = 0, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER,
	PHASE_RECOMPUTE, /* a module's forward inside backward: activation checkpointing */
	PHASE_EVALUATION, /* a module's forward with grad mode off */
	PHASE_MAX,
};
const char *phase_name(enum phase p); /* "forward" … */

enum tl_mark {
	MARK_FW_START = 1, MARK_FW_BW_BOUNDARY = 2, MARK_STEP = 3, /* a step has ended */
	MARK_MAX,
};
const char *mark_name(enum tl_mark m); /* "fw_start" … */

/* Live bytes of a process, framework devices together; peak: the highest since the mark before. ts_ns 0: no such mark. */
struct mark_at {
	uint64_t ts_ns, live, peak;
};

/* A step, when it is over. Of several marks of a kind in it the one with the most live bytes, and the highest peak. */
struct step_marks {
	uint64_t number, begin_ts_ns; /* begin: 0 = before the process was looked at */
	uint32_t pid;
	uint8_t is_settling; /* one of the first: state is still being made, or seen for the first time */
	struct mark_at at[MARK_MAX];
};
/* From its forward on: an evaluation before it is not the step's. */
uint64_t step_marks__peak(const struct step_marks *s);
void step_marks__add(struct step_marks *s, enum tl_mark kind, const struct mark_at *at);

/*
 * As in torch.profiler; numbering is ours. 0 = unknown. The second row exists with CLASSES_EXTENDED
 * only: what torch.profiler has no category for, or a wrong one.
 */
enum category {
	CAT_UNKNOWN = 0, CAT_PARAMETER, CAT_OPTIMIZER_STATE, CAT_INPUT, CAT_TEMPORARY, CAT_ACTIVATION,
	CAT_GRADIENT, CAT_AUTOGRAD_DETAIL,
	CAT_COMPAT_MAX, CAT_FROZEN = CAT_COMPAT_MAX, CAT_BUFFER, CAT_DATALOADER, CAT_COMMUNICATION, CAT_WORKSPACE,
	CAT_UNSHARDED,
	CAT_MAX,
};
enum classes { CLASSES_COMPAT = 0, CLASSES_EXTENDED = 1 };
const char *category_name(enum category c); /* "PARAMETER" …, "unknown" */
/* Of a block that no operator was given. */
static inline bool category_is_none(enum category c)
{
	return c == CAT_UNKNOWN || c == CAT_WORKSPACE;
}

#define TL_SIZE_UNKNOWN UINT64_MAX

/* A block at a node. Inputs were there before it; outputs are there after it. */
enum tl_edge_flag {
	TL_EDGE_IN = 1,	     /* version, cat: what the node was given */
	TL_EDGE_WRITTEN = 2, /* out_version = version + 1 */
	TL_EDGE_ALLOCATED = 4,    /* in it; with DIED: an intermediate */
	TL_EDGE_FREED = 8,    /* in it: marked with * in torch's own tables */
	TL_EDGE_GIVEN = 16,  /* an operator in it was given it: not only made, or freed, there */
};
struct tl_edge {
	uint64_t id;
	uint32_t version, out_version;
	uint8_t cat, out_cat; /* final labels of the two versions */
	uint8_t flags;	      /* enum tl_edge_flag */
	uint8_t dev;
};

/* What a block has learned from the same allocation of a traced step: not measured. */
struct tl_learned {
	name_id op, region, module, root;
	uint8_t cat, phase;
};

struct tl_event {
	uint64_t ts_ns; /* CLOCK_MONOTONIC; views add the epoch offset */
	/* a member of a union without a kind here is used by all other kinds */
	union {
		uint64_t ptr;
		uint64_t begin_ns; /* TL_COMPILED */
		uint64_t parent;   /* TL_STACK */
	};
	union {
		uint64_t size;	  /* bytes, TL_SIZE_UNKNOWN: a preexisting block of unknown size */
		uint64_t took_ns; /* TL_COMPILED */
	};
	union {
		uint64_t id;	/* of the block: never reused; from 1 */
		uint64_t added; /* TL_COMPILED */
		uint64_t node;	/* TL_STACK */
	};
	union {
		uint32_t version; /* that the block has now; TL_VERSION: the new one */
		uint32_t step;	  /* TL_COMPILED */
		uint32_t line;	  /* TL_STACK */
	};
	uint32_t pid, tid;
	union {
		name_id op;	  /* innermost open operator; TL_OP: the operator itself */
		name_id function; /* TL_COMPILED, TL_STACK */
	};
	union {
		name_id region; /* innermost open region or backward node's; TL_REGION: itself */
		name_id reason; /* TL_COMPILED */
		name_id file;	/* TL_STACK */
	};
	uint8_t kind; /* enum tl_kind */
	uint8_t dev;  /* enum mt_dev */
	uint8_t cat;  /* enum category */
	union {
		uint8_t depth;
		uint8_t compiled;   /* TL_COMPILED: enum ev_compiled, bits */
		uint8_t frame_kind; /* TL_STACK: enum ev_frame_kind */
	};
	const struct tl_edge *edges; /* TL_NODE; valid during the call */
	uint32_t edges_cnt;
	uint8_t has_stream; /* of a block: reported so far */
	uint32_t stream;    /* folded to 32 bits (event/event.h); 0: the default one */
	uint32_t stack; /* TL_CREATE, _PREEXISTING, _DESTROY: node where the block was allocated; 0: not known */
	name_id module, root; /* TL_CREATE, _DESTROY: whose forward or backward made it: path ("" is the root itself), and the
				 root's label; none: of none, or not known yet */
	uint32_t module_number; /* of such a block whose module has no name yet: the number in its TL_MODULE; else 0 */
	uint8_t phase;	      /* enum phase, at its allocation; TL_OP, TL_REGION*: as far as known then, at its end its own */
	/* TL_LEARNED; TL_CREATE, _DESTROY (where a part begins _PREEXISTING): a guess, or NULL. During the call */
	const struct tl_learned *learned;
	union {
		name_id type;	/* TL_NAME: "float32[512,512]" */
		name_id failed; /* TL_COMPILED */
	};
	union {
		name_id key;	    /* TL_NAME: "exp_avg" */
		name_id compile_id; /* TL_COMPILED */
	};
};

/* An allocation as it counts where it is taken for what it has learned. */
static inline struct tl_event tl_likely(const struct tl_event *ev)
{
	struct tl_event ret = *ev;

	if (ev->learned) {
		ret.op = ev->learned->op;
		ret.region = ev->learned->region;
		ret.module = ev->learned->module;
		ret.root = ev->learned->root;
		ret.phase = ev->learned->phase;
	}
	return ret;
}

typedef int (*timeline_fn)(void *ctx, const struct tl_event *ev);

#endif
