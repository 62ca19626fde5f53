/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * graph_json: the document that docs/estimate.md describes, from a stream into a struct est_doc.
 *
 * Hostile input. Read in pieces that are not kept: memory is that of the document's arrays. Every refusal reports the error and
 * its place ("graph.json:12:34: …"). Unknown keys are passed over.
 */
#ifndef MT_ESTIMATE_GRAPH_JSON_H
#define MT_ESTIMATE_GRAPH_JSON_H

#include <stdio.h>

#include "estimate/graph.h"

/* Into an initialised, empty document. `name` stands in messages. 0, or -EINVAL, -EIO, -ENOMEM, -ENODATA with *err. */
int graph_json_read(struct est_doc *d, FILE *in, const char *name, struct err *err);
int graph_json_read_mem(struct est_doc *d, const void *data, size_t len, const char *name, struct err *err);

#endif
