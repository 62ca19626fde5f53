/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * flow_view: the data-flow graph, a line a node, step by step:
 *
 *   aten::mul.Tensor          T0(v0) INPUT, T1(v0) PARAMETER   ->  T2(v0) ACTIVATION
 *   [memory]                  T2(v0*) ACTIVATION               ->
 *
 * as torch.profiler's own tests print it: inputs with the versions that the node was given, * on those
 * freed in it, outputs as it left them. As JSON one object a node (node_json.h) with its step.
 *
 * Made from a recording in two passes: the first one notes where the last steps begin (8 bytes each), the
 * second one writes the nodes in between, so that memory does not grow with the output. A step
 * ends with the Optimizer.step region, or begins with a step mark in a process that has those.
 */
#ifndef MT_VIEW_TABLES_FLOW_H
#define MT_VIEW_TABLES_FLOW_H

#include <stdio.h>

#include "timeline/timeline.h"

#define FLOW_STEPS_MAX 1000000u /* counted one by one */

struct flow_view;
/* The last `steps` whole steps of each process, UINT64_MAX: everything. NULL: no memory. */
struct flow_view *flow_view__new(FILE *out, uint64_t steps, int json);
void flow_view__free(struct flow_view *v);
/* Before each pass; borrowed for it. */
void flow_view__names(struct flow_view *v, const struct names *names);
int flow_view__scan(struct flow_view *v, const struct tl_event *ev); /* first pass: marks and regions */
int flow_view__event(struct flow_view *v, const struct tl_event *ev, int64_t epoch_off_ns);
/* Flushes: 0 or -errno. *ret_nodes: seen in the second pass, shown or not. */
int flow_view__end(struct flow_view *v, uint64_t *ret_nodes);

#endif
