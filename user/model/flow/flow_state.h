/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* flow_state: what a graph holds; for flow*.c alone. */
#ifndef MT_MODEL_FLOW_STATE_H
#define MT_MODEL_FLOW_STATE_H

#include "model/core/device.h"
#include "base/map.h"
#include "base/tensor_kinds.h"
#include "model/flow/flow.h"
#include "model/core/modules.h"
#include "model/core/procs.h"
#include "model/core/tally.h"
#include "model/core/threads.h"
#include "timeline/report.h"

#define SPANS_MAX 8	  /* versions of a block whose labels may still differ */
#define SOURCES_MAX 8	  /* blocks that one not yet labelled was made from */
#define WINDOW_NODES 32768
#define WINDOW_EDGES 262144
#define WINDOW_DEAD 32768 /* freed blocks a process whose label may still change */
#define STEPS_KEPT 2
#define STEPS_WAITED 64 /* … while Python is waited for (flow_wrapped.c) */
#define NAMED_NS 4000000000ull /* … and its word is complete once there was nothing new for so long */
#define STEPS_LOOKED_BACK (STEPS_WAITED + STEPS_KEPT)
#define OUTBOX_NODES 65536 /* nodes a process that are not reported yet */
#define OUTBOX_EDGES 524288
#define REGION_BLOCKS 65536
#define FLOW_PROCS_MAX 1024

enum fb_flag {
	FB_FLOWS = 1 << 0,  /* depends on a parameter or gradient ("G" in the rules) */
	FB_PARAM = 1 << 1,
	FB_WEAK = 1 << 2,   /* parameter by data flow alone */
	FB_GRAD = 1 << 3,
	FB_STATE = 1 << 4,
	FB_TEMP = 1 << 5,
	FB_TOUCHED = 1 << 6, /* an operator or node was given it: it is a tensor */
	FB_LATE = 1 << 7,     /* preexisting */
	FB_STALE = 1 << 8,   /* a step passed and it was not touched */
	FB_STATE_MUT = 1 << 9, /* state because an optimizer wrote it, not because it was allocated there */
	FB_ACC = 1 << 10,    /* variable of an AccumulateGrad, a parameter perhaps */
	FB_BWD_WRITTEN = 1 << 11,
	FB_USED = 1 << 12,   /* an argument named weight or bias, outside backward and optimizer */
	FB_SAVED = 1 << 13,  /* backward read it, and did not make it (extended classes) */
	FB_OF_GRAD = 1 << 14, /* made outside backward from a gradient, of its size: L2 decay adds the weights to a copy */
	FB_UNSEEN = 1 << 15, /* allocated while operators were not seen, and not by an optimizer */
	FB_ALL = (1 << 16) - 1,
	FB_STRONG = FB_PARAM | FB_GRAD | FB_STATE,
};

/* Marks of the extended classes; all zero with CLASSES_COMPAT (flow_classes.c). */
enum fb_mark {
	FM_ON = 1 << 0,
	FM_SEEN = 1 << 1,    /* round_first is set */
	FM_LOADER = 1 << 2,  /* a DataLoader's: allocated in its region, or shared memory of its workers */
	FM_RUNNING = 1 << 3, /* an argument named running_mean or running_var */
	FM_READ = 1 << 4,    /* used in several rounds, outside backward and optimizer */
	FM_WRITTEN = 1 << 5, /* written so */
	FM_GATHERED = 1 << 6, /* a buffer of a collective that gathers or reduces */
	FM_BUCKET = 1 << 7,  /* gradients of several parameters on their way to a collective */
	FM_FROZEN = 1 << 8,
	FM_IN_STEP = 1 << 9, /* allocated in an optimizer's region, outside backward */
	FM_ARITH = 1 << 10,  /* part of its arithmetic */
	FM_BY_HAND = 1 << 11, /* state of an optimizer that has no region */
	FM_UNSHARDED = 1 << 12, /* allocated where FSDP puts what it gathered */
	FM_SHARD = 1 << 13,  /* read where FSDP gathers: a parameter's shard */
	FM_REDUCED = 1 << 14, /* what a reduce-scatter left: gradients of shards */
	FM_SENT = 1 << 15,   /* read where FSDP reduces, or put together there: not that */
	FM_RECEIVED = 1 << 16, /* gets a gradient, is no parameter in Python, and no optimizer writes it: a pipeline's */
	FM_ALL = (1 << 17) - 1,
};

#define KNOWN_BY_ROLE (FB_PARAM | FB_GRAD | FB_STATE)
#define FM_FSDP (FM_GATHERED | FM_UNSHARDED | FM_SHARD | FM_REDUCED)

/* How often something happened to a block, in different rounds after its first. */
struct rounds {
	uint32_t last;
	uint8_t cnt;
};

/* A run of versions with one label. Bytes move between categories by span. */
struct label_span {
	uint64_t ts_ns, epoch; /* when it began; peaks of the device until then */
	uint32_t ver;	       /* its first version */
	uint8_t cat;	       /* as decided by version, 0 = not */
	uint8_t guess;	       /* shown until then */
	uint8_t shown;	       /* where its bytes are counted */
	uint8_t bwd;	       /* made by a backward node */
};

struct tensor_source {
	uint64_t id;
	uint32_t ver;
};

struct fblock {
	uint64_t id; /* 0: not in use; the next free one is in size */
	uint64_t size;
	struct block *blk; /* NULL: freed */
	struct device *dev;
	uint64_t end_ns, end_epoch; /* of a freed one */
	uint64_t allocated_node, mark_node;
	uint64_t used_node; /* a node that used it as a weight; of a freed one: the last node at its free */
	struct label_span *spans; /* &one, or SPANS_MAX of room */
	struct label_span one;
	struct tensor_source *sources; /* SOURCES_MAX of room, or NULL */
	uint32_t ver, flags;
	uint32_t mark_edge;
	uint32_t acc_step, used_step, end_step;
	uint32_t acc_forward; /* forwards of its process at its last AccumulateGrad */
	uint32_t region, replay; /* optimizer regions ended when it became state by a write; last replay */
	uint32_t place;	 /* of what an inference's graph returned: name id of its place */
	uint32_t habit;	 /* where it was allocated, as a hash; 0 = no place of its own */
	uint8_t expected; /* category + 1 that such blocks had in the end: shown until its own is certain */
	uint8_t spans_cnt, sources_cnt, state_cnt;
	uint8_t py_kind; /* Python's word, enum ev_tensor; 0: none */
	uint8_t made; /* its relation to generated code: enum ev_place, enum block_made */
	bool bare; /* allocated in forward, by a call whose tensors were not seen */
	bool py_inner; /* … as a part of a tensor that has no memory of its own: no AccumulateGrad names it … */
	bool py_rests; /* … and none comes for it: a parameter that asks for no gradient */
	bool indices;	/* of a .grad that is sparse, which keeps the batch that they are */
	bool record_comes; /* its TL_CREATE or TL_DESTROY, right after this event, has the label: no TL_LABEL is needed */
	uint32_t marks;	    /* enum fb_mark */
	uint32_t py_step; /* steps of its process when Python's word came first */
	uint32_t round_first, round_stepped; /* first seen; a parameter was last written, + 1 */
	struct rounds used, written, stepped_by_hand;
	uint64_t variable; /* whose gradient it is */
};

enum edge_flag {
	EDGE_TRUE = 1, EDGE_FALSE = 2, EDGE_NONE = 4, /* whether operators write it */
	EDGE_ALLOC = 8, EDGE_DEL = 16,
	EDGE_BUMPED = 32, /* its version was counted up: outputs ver + 1 */
};

struct edge {
	uint64_t id;
	uint32_t ver; /* that the node was given */
	uint32_t flags;
};

struct fnode {
	uint64_t serial, ts_ns;
	uint32_t edges_at, edges_cnt; /* in the window */
	uint32_t step;
	uint8_t kind; /* of its leaf frame */
	bool bwd, under_eval, in_region;
	bool in_hook; /* AccumulateGrad with the hooks inside of it, or called by one after it */
};

struct edges {
	struct edge *e;
	uint32_t cnt, cap;
};

struct ids {
	uint64_t *v;
	uint32_t cnt, cap;
};

/* A node as it will be reported (flow_nodes.c). */
struct out_node {
	uint64_t serial, ts_ns;
	name_id op, region;
	uint32_t tid, step, edges_cnt;
	uint8_t depth;
};

/* Closed nodes whose labels may still change, and those that are memory alone; oldest first. */
struct outbox {
	struct out_node *nodes;
	uint32_t at, cnt, cap; /* nodes before at are reported */
	struct edges edges;
	uint32_t edges_at;
};

struct fproc {
	uint32_t pid;
	uint32_t steps, regions_ended;
	uint32_t open_nodes;
	uint64_t overlap; /* nodes up to this serial may have been open together with others */
	uint64_t ends_ns[STEPS_LOOKED_BACK]; /* of the last steps; [number % STEPS_LOOKED_BACK] */
	uint64_t cut_ns; /* the window's nodes that are gone had ended by then */
	uint32_t waits_until; /* this many steps: Python's word on parts of tensors is waited for */
	uint64_t named_ns;     /* its last one; 0: none */
	bool has_waited;
	struct outbox out; /* empty without timeline_nodes */
	uint32_t rounds;   /* passes over the data so far: a parameter that was updated got a gradient again */
	bool trains;	   /* an AccumulateGrad was seen */
	bool has_updated;  /* a parameter was seen written: not where the optimizer is compiled */
	bool has_graphs;   /* generated code runs in it */
	uint32_t given_at; /* entries of `allocated` before it were looked at when the last generated forward began */
	bool blind;	   /* regions of optimizers are never reported */
	bool has_named; /* parameters that Python names … */
	bool has_parts; /* … and that are parts of tensors without memory of their own */
	struct map wrapped;	/* parameters in tensors without memory of their own, and their gradients (flow_wrapped.c) */
	struct map grad_places; /* where such gradients were allocated that Python named: habits */
	bool has_workers, has_ddp; /* regions of a DataLoader with workers, of DistributedDataParallel */
	bool has_fsdp; /* … of fully_shard */
	struct ids weights; /* parameters for their argument's name alone, not yet known to be frozen */
	bool news; /* parameters were found since the last replay */
	bool forward;	   /* an operator ran outside of backward since the last AccumulateGrad … */
	uint32_t forwards; /* … and how often that happened */
	uint64_t forward_node; /* the last such operator's */
	bool steps_in_hooks; /* optimizers step in hooks of backward nodes, for a parameter at a time */
	bool hooks_update; /* … without a region: hooks write parameters */
	struct fnode *nodes;
	uint32_t nodes_cnt, nodes_cap;
	struct edges edges;
	struct ids allocated; /* in this step */
	struct ids dead; /* oldest first, from dead_at on */
	uint32_t dead_at;
};

enum op_class {
	OPC_UNKNOWN, OPC_OTHER, OPC_DETACH_ADD, OPC_FACTORY, OPC_PY_NODE, OPC_STEP_REGION,
	OPC_ACC_NODE, OPC_LOADER_REGION, OPC_WORKERS_REGION, OPC_DDP_REGION,
	OPC_UNSHARD_REGION, OPC_GATHER_REGION, OPC_REDUCE_REGION, /* of FSDP */
	OPC_VIEW_NODE, /* a backward node that only makes views of what it is given */
	OPC_CHUNK_CAT, /* puts gradients together for a reduce-scatter */
	OPC_TAKEOVER, /* tensor 0 gets the storage of tensor 1 */
	OPC_SPARSE, /* puts a sparse tensor together of indices and values */
};

/* An in-place operator whose tensor may get another block in it (resize_). */
struct own {
	uint32_t seq;	      /* its frame; 0 = none */
	uint64_t self;	      /* block of its first argument */
	uint64_t allocated; /* first block of that frame */
	bool died;
};

/* A region of FSDP that is open; the innermost one is the last. */
struct fsdp_region {
	uint8_t idx, class; /* class: enum op_class */
};
#define FSDP_DEPTH 4
#define FSDP_REDUCED_MAX 4096

struct fthread {
	uint32_t pid, tid;
	struct thread *th; /* its frames; of this thread as long as pid and tid are */
	struct fproc *proc;
	int leaf;      /* frame of the open node, -1 = none */
	int acc;       /* innermost AccumulateGrad frame whose first operator is awaited or seen, -1 */
	uint32_t leaf_seq, acc_seq; /* which frames these are */
	bool acc_first; /* that operator was seen */
	bool acc_taken; /* and its first argument is the gradient */
	bool dirty;    /* writes that made no version yet */
	int guess;     /* label of what the open node makes, -1 = to be found */
	int region;    /* index of the outermost optimizer region, -1 = none */
	uint8_t region_depth; /* frames that were open when it began */
	bool region_in_backward; /* it began in a hook of a backward node */
	int loader; /* likewise, of a DataLoader's */
	struct fsdp_region fsdp[FSDP_DEPTH];
	uint8_t fsdp_cnt;
	struct ids reduced; /* allocated since its outermost region that reduces began */
	uint32_t into_seq; /* frame of an operator that writes a block of FSDP's … */
	uint16_t into;	   /* … what its other arguments are for that, enum fb_mark */
	uint64_t variable;  /* of the last AccumulateGrad */
	struct fnode node;
	struct out_node reported; /* what else is reported of it */
	struct own own;
	uint64_t taken_from; /* block of tensor 0 of an OPC_TAKEOVER */
	uint32_t taken_seq;
	struct edges edges;
	struct ids region_allocated, region_mut;
};

/* Beside enum ev_place, of blocks that no line of generated code allocated. */
enum block_made {
	MADE_LEFT = 1 << 4,  /* left by an operator that was given what a generated forward made, or freed by backward */
	MADE_GIVEN = 1 << 5, /* it was there when a generated forward began */
	MADE_OF_PARTS = 1 << 6, /* by a call in a module's forward whose tensors are not seen (flow_wrapped.c) */
	MADE_KEPT = 1 << 7, /* a GPU library's scratch: from within an operator, given to none, there after its step */
	MADE_ALL = EV_PLACE_ALL | MADE_LEFT | MADE_GIVEN | MADE_OF_PARTS | MADE_KEPT,
};

/* A block that was allocated at a place that was not reported yet. */
struct unplaced {
	uint64_t id;
	name_id place;
};
#define UNPLACED_MAX 4096 /* the oldest is dropped */

/* The final category of the blocks that one place of the program made: jobs repeat themselves. */
struct habit {
	uint32_t place;
	uint8_t cat, times;
};
#define HABITS 8192u
#define HABIT_SURE 2 /* times in a row */

struct graph {
	struct flow_env env;
	struct fblock **chunks;
	uint32_t chunks_cnt, used, free_head; /* numbers + 1 */
	uint32_t *slots; /* number + 1 */
	uint64_t mask;
	uint32_t live;
	uint64_t serial; /* of nodes */
	uint32_t replays;
	struct fproc **procs;
	size_t procs_cnt;
	struct fthread **threads; /* in the order in which they came */
	size_t threads_cnt, threads_cap;
	struct fthread *by_num[THREADS_MAX]; /* struct thread.num */
	struct fproc *last_proc;
	struct habit habits[HABITS];
	struct unplaced *unplaced; /* UNPLACED_MAX of room, or NULL */
	uint32_t unplaced_cnt;	   /* all that were */
	struct report_flow counts;
	struct tl_edge *tl_edges; /* room for one node's */
	uint32_t tl_edges_cap;
	uint8_t *classes; /* [name id], enum op_class */
	size_t classes_cnt;
};

/* flow_threads.c */
void fthread__free(struct fthread *t);
void fproc__free(struct fproc *p);
struct fproc *graph__proc(struct graph *g, uint32_t pid); /* NULL: there are too many */
static inline struct fthread *graph__thread_at(const struct graph *g, const struct thread *th) /* of any thread; NULL: none */
{
	return th->num < THREADS_MAX ? g->by_num[th->num] : NULL;
}
struct fthread *graph__add_thread(struct graph *g, struct thread *th); /* NULL: no memory (counted) */
void graph__drop_thread(struct graph *g, struct fthread *t);
bool fthread__in_backward(const struct fthread *t, int depth); /* one of its first `depth` frames is a backward node's */
bool fthread__in_hook(const struct fthread *t); /* of an operator: called after AccumulateGrad, by its hooks */

name_id graph__region_of(const struct graph *g, const struct fthread *t, const struct event *ev);

/* flow_names.c */
uint8_t graph__class(struct graph *g, name_id name); /* enum op_class, OPC_OTHER if it is none of them */

/* flow_made.c */
/* It was allocated there: before its label is reported. */
void graph__made(struct graph *g, struct fproc *p, struct fblock *f, uint8_t made, name_id place);
void fproc__made_node(struct graph *g, const struct fproc *p, const struct fnode *n, const struct edge *e); /* it is over */
void fblock__made_kept(struct fblock *f); /* its step is over, and no operator was given it */
void fblock__made_freed(const struct graph *g, struct fblock *f, const struct fthread *t); /* it is freed in that thread */

/* flow_label.c */
uint8_t fblock__made_rule(const struct fblock *f); /* by the file, for the rules: a temporary is what it was made from */
uint8_t fblock__cat(const struct fblock *f, const struct label_span *s);
/* The plain category for cat, torch.profiler's (graph__plain()). */
uint8_t fblock__plain(const struct fblock *f, uint8_t cat);
uint8_t fblock__settled(const struct fblock *f, const struct label_span *s); /* its label without guesses */

/* flow_blocks.c */
struct fblock *graph__find(const struct graph *g, uint64_t id); /* NULL: none, or its label is settled */
struct fblock *graph__add(struct graph *g, struct block *b);	/* NULL: no memory (counted) */
void graph__remove(struct graph *g, struct fblock *f);
struct fblock *graph__each(const struct graph *g, uint32_t *num); /* *num starts at 0; NULL ends it */
void fblock__refresh(struct graph *g, struct fblock *f); /* after any change of label: bytes move */
void fblock__end(struct graph *g, struct fblock *f);	 /* its block ends now */
struct label_span *fblock__span(struct fblock *f, uint32_t ver);
/* A new version that began at ts_ns. */
void fblock__bump(struct graph *g, struct fblock *f, uint64_t ts_ns, bool bwd);
bool ids__push(struct ids *ids, uint64_t id, uint32_t max);
/* From the final labels of blocks allocated at the same place (operator, node, size, number in its node). */
void graph__expect(struct graph *g, struct fblock *f, uint32_t ordinal);
struct edge *edges__push(struct edges *es, uint32_t max);

/* flow_classes.c */
void fthread__class_region(struct graph *g, struct fthread *t, const struct event *ev, uint8_t class);
void fthread__class_allocated(struct fthread *t, struct fblock *f);
void fthread__class_arg(struct graph *g, struct fthread *t, const struct event *ev, struct fblock *f);
bool graph__class_is_node(const struct graph *g, const struct event *ev); /* an operator with this tensor, all the same */
void fthread__class_grad(struct graph *g, struct fthread *t, struct fblock *grad);
void fproc__class_variable(struct graph *g, struct fproc *p, struct fblock *f);
void fproc__class_updated(struct fproc *p, struct fblock *f); /* a parameter was written, outside backward */
void fproc__class_weight(struct fproc *p, struct fblock *f);  /* a parameter for its argument's name */
void fproc__class_node(struct graph *g, struct fproc *p, const struct fnode *n, const struct edge *e);
/* Of a node outside of backward and of all regions. */
void fproc__state_by_hand(struct graph *g, struct fproc *p, const struct fnode *n, const struct edge *e);
void fproc__class_region_end(struct graph *g, struct fproc *p);
void fproc__class_step(struct graph *g, struct fproc *p);

/* flow_wrapped.c */
void fproc__wrapped_seen(struct fproc *p); /* AccumulateGrad was given a variable without memory */
void fthread__acc_made(struct graph *g, struct fthread *t); /* when its node closes */
bool fthread__is_first_of_acc(const struct fthread *t, const struct frame *fr);
void fthread__acc_takes(struct graph *g, struct fthread *t, struct fblock *f, const struct frame *fr, uint8_t index);
void fproc__wrapped_named(struct graph *g, struct fproc *p, const struct fblock *f); /* Python's word is another one now */
void graph__wrapped_grads(struct graph *g, struct fproc *p); /* an optimizer's step begins */
static inline bool fproc__waits(const struct graph *g, const struct fproc *p)
{
	return p->steps < p->waits_until && (!p->named_ns || *g->env.now_ns < p->named_ns + NAMED_NS);
}
/*
 * Calls on parts of wrapped tensors (DTensor) are boxed: what an operator computed from data and a parameter is seen in
 * the pieces that it calls, such as the copy of a bias, without the data. Where parameters are such parts, forward makes
 * activations of them. FSDP puts whole tensors together first, but these may be parts of another mesh's: the extended classes,
 * which know FSDP's own blocks by their marks, do not need this.
 */
static inline bool fproc__computes_on_parts(const struct graph *g, const struct fproc *p)
{
	return p->has_parts && (!p->has_fsdp || g->env.classes == CLASSES_EXTENDED);
}
/* Allocated outside of all nodes: before its label is reported. */
void fthread__bare(const struct graph *g, const struct fthread *t, struct fblock *f);

/* flow_rules.c */
void graph__label(struct graph *g, struct fproc *p, const struct fnode *n, const struct edge *e);
uint8_t graph__guess(struct graph *g, const struct fnode *n, const struct edge *e);
void graph__set_param(struct graph *g, struct fproc *p, struct fblock *f);
void graph__set_grad(struct graph *g, struct fblock *f);
void graph__set_indices(struct graph *g, const struct fproc *p, struct fblock *f); /* … of a sparse one */
bool fproc__has_as_input(const struct fproc *p, const struct fblock *f); /* for more than a step */
/* In the window, before a node is labelled: a replay would take labels away from one that is not in it yet. */
void graph__make_room(struct graph *g, struct fproc *p, uint32_t edges);
void graph__keep(struct fproc *p, const struct fnode *n, const struct edge *e);
void graph__end_step(struct graph *g, struct fproc *p);
void graph__end_step_at(struct graph *g, struct fproc *p, uint64_t last_node); /* which was its last one, by serial */
void graph__end_region(struct graph *g, struct fthread *t);
void graph__keep_freed(struct graph *g, struct fproc *p, struct fblock *f); /* it waits in the window */
void graph__apply_news(struct graph *g, struct fproc *p); /* labels the window again if parameters were found */
void graph__end_dead_guesses(struct graph *g, struct fproc *p);
/* Nothing more will be learned of it: ends guesses, reports its final labels, removes it. */
void graph__settle(struct graph *g, struct fblock *f, uint32_t pid);
void graph__take_over(struct graph *g, uint64_t from, uint64_t to);

/* flow_nodes.c: without effect unless timeline_nodes is set */
void graph__queue(struct graph *g, struct fproc *p, const struct out_node *n, const struct edge *e, uint32_t cnt);
/* Memory allocated or freed outside of all nodes. */
void graph__queue_memory(struct graph *g, struct fthread *t, const struct event *ev, const struct fblock *f,
			 uint32_t flags);
void graph__tell_old(struct graph *g, struct fproc *p);		      /* labels are settled now */
void graph__tell_until(struct graph *g, struct fproc *p, uint64_t serial); /* … or a block of theirs goes */
void graph__tell_all(struct graph *g, struct fproc *p);
void graph__tell_final(struct graph *g, const struct fblock *f, uint32_t pid);

#endif
