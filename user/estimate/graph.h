/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * graph: graphs of operators over storages, as torch.fx has them, in arrays.
 *
 * Nodes stand in the order in which they run. A node has inputs (nodes before it) and outputs (storages of the document;
 * one that is in the outputs of an earlier node, too, is a view or was written in place). Storages are shared by the graphs
 * of a document: the inputs of the backward graph are what the forward graph made.
 *
 * Filled row by row, then closed by est_doc__finish; only then may it be read. Strings come from a file and are kept as
 * they are. 24 bytes a node and its name, 4 an input or output, 10 a storage. Not thread-safe.
 */
#ifndef MT_ESTIMATE_GRAPH_H
#define MT_ESTIMATE_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "base/names.h"

struct err;

#define EST_NONE UINT32_MAX
#define EST_GRAPHS_MAX 16
#define EST_DEVS_MAX 64
#define EST_DEV_MAX 63 /* bytes of a device's name */
#define EST_NODES_MAX (1u << 26)    /* a graph */
#define EST_EDGES_MAX (1u << 28)    /* inputs, and outputs, of a graph */
#define EST_STORAGES_MAX (1u << 26) /* a document */
#define EST_TEXT_MAX (1u << 31)	    /* bytes of all nodes' names */
#define EST_NAME_MAX 1024
#define EST_BYTES_MAX (1ull << 50) /* a storage; sums stay below 2^57 */
#define EST_TOTAL_MAX (1ull << 57)

enum est_op { EST_COMPUTE = 0, EST_PLACEHOLDER, EST_GET_ATTR, EST_OUTPUT };

struct est_node {
	uint32_t name;	 /* est_doc__name */
	name_id target;	 /* the function that it calls */
	uint32_t line;	 /* of the file, 0: no file */
	uint32_t in_end; /* its inputs are ins[in_end of the node before] up to here */
	uint32_t out_end;
	uint16_t op; /* enum est_op */
	uint16_t is_primal; /* its name begins with "primals": by torch's _is_releasable not freed */
};

struct est_graph {
	name_id name;
	struct est_node *nodes;
	uint32_t *ins, *outs; /* nodes; storages */
	uint32_t *schedule;   /* nodes in another order, NULL: none was given */
	size_t nodes_cnt, nodes_cap, ins_cnt, ins_cap, outs_cnt, outs_cap, schedule_cnt, schedule_cap;
	int has_schedule;
};

struct est_doc {
	struct est_graph graphs[EST_GRAPHS_MAX];
	size_t graphs_cnt;
	uint64_t *bytes; /* of each storage */
	uint16_t *devs;	 /* its device, an index of dev_names */
	size_t storages_cnt, bytes_cap, devs_cap;
	char *dev_names[EST_DEVS_MAX];
	size_t devs_cnt;
	char *text; /* names of nodes */
	size_t text_len, text_cap;
	struct names *words; /* targets, names of graphs */
	char *torch;	     /* the version that wrote it, or NULL */
};

int est_doc__init(struct est_doc *d); /* 0 or -ENOMEM */
void est_doc__done(struct est_doc *d);

/* Each 0, -ENOMEM, or -E2BIG past a cap. A node's inputs and outputs are added before the node. */
int est_doc__graph(struct est_doc *d, struct est_graph **ret);
int est_doc__node(struct est_doc *d, struct est_graph *g, const struct est_node *node, const char *name, size_t len);
int est_graph__in(struct est_graph *g, uint32_t node);
int est_graph__out(struct est_graph *g, uint32_t storage);
int est_graph__next(struct est_graph *g, uint32_t node); /* of the schedule */
int est_doc__device(struct est_doc *d, const char *name, size_t len); /* they are numbered as they come */
int est_doc__storage(struct est_doc *d, uint64_t bytes, uint16_t dev);
/*
 * References are checked, and named twice by one node counted once. 0, or -EINVAL with a message that names the graph,
 * the node and its line: an input that does not come before its node (a cycle), an unknown storage, node or device.
 */
int est_doc__finish(struct est_doc *d, struct err *err);

const struct est_graph *est_doc__find(const struct est_doc *d, const char *name); /* NULL: none */

static inline const char *est_doc__name(const struct est_doc *d, const struct est_node *n)
{
	return d->text + n->name;
}

static inline uint32_t est_in_begin(const struct est_graph *g, uint32_t node)
{
	return node ? g->nodes[node - 1].in_end : 0;
}

static inline uint32_t est_out_begin(const struct est_graph *g, uint32_t node)
{
	return node ? g->nodes[node - 1].out_end : 0;
}

/* Of the i-th node: its inputs (outputs) one after the other in `at`. */
#define EST_FOR_INS(g, node, at) for (uint32_t at = est_in_begin(g, node); at < (g)->nodes[node].in_end; at++)
#define EST_FOR_OUTS(g, node, at) for (uint32_t at = est_out_begin(g, node); at < (g)->nodes[node].out_end; at++)

/* Nodes outside of the order of execution: never run, never free. */
static inline int est_op_is_given(uint32_t op)
{
	return op == EST_PLACEHOLDER || op == EST_GET_ATTR;
}

#endif
