/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * sieve: which part of a recording was asked for: a span of time, processes, a device, a category, a module, an operator.
 * It stands between a replay and the view, so that a report of a moment and every export leave out the same.
 *
 * It needs a first pass (sieve__learn), for what is known with hindsight only: categories come from labels, and a block's
 * module may be reported only when it ends. A block that no module's forward or backward made belongs to the module whose
 * parameter, buffer, gradient or optimizer state it is by Python's name.
 */
#ifndef MT_TIMELINE_SIEVE_H
#define MT_TIMELINE_SIEVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "base/names.h"
#include "timeline/spans.h"
#include "timeline/timeline.h"

struct labels;

struct sieve {
	/* What is asked for. Texts and pids are borrowed. */
	struct span span;     /* from_ns 0, to_ns UINT64_MAX: all */
	int dev, category;    /* -1: all */
	const char *module;   /* a path, or a pattern with *; all that is in it, too; NULL: all */
	const char *op;	      /* "aten::mm" or "mm", or a pattern; NULL: all */
	const uint32_t *pids; /* pids_cnt 0: all */
	size_t pids_cnt;
	/* What the first pass found. */
	const struct names *names;   /* borrowed */
	const struct labels *labels; /* borrowed */
	struct map nobodys;	     /* living blocks of no module that is known */
	struct map owners;	     /* blocks whose module was reported at their free */
	struct map params;	     /* root modules of parameters, by process and path: an optimizer knows only paths */
	/* The second one. */
	struct map live;
	struct map totals; /* a caching allocator's own, as they were reported last */
	bool is_open, in_gap;
};

/* A module: path ("" is the root itself) and the root's label; both none: no module. */
struct owner {
	name_id path, root;
	uint32_t path_len; /* bytes of a parameter's path that are the module's */
};

void sieve__init(struct sieve *s); /* everything passes */
void sieve__done(struct sieve *s);
int sieve__learn(struct sieve *s, const struct tl_event *ev); /* the first pass. 0 or -ENOMEM */

bool sieve__is_whose(const struct sieve *s, const struct tl_event *ev); /* by process and device */
/* An allocation: by module and operator; of one that has learned something, by what it has learned. */
bool sieve__is_made(const struct sieve *s, const struct tl_event *ev);
bool sieve__is_category(const struct sieve *s, enum category c);
struct owner sieve__owner(const struct sieve *s, const struct tl_event *alloc);
/* root and path as people write them: "Model.block.fc1"; returns buf. */
const char *owner__words(const struct owner *o, const struct names *names, char *buf, size_t size);
/* A path without what torch.compile puts into it: "layers.0._orig_mod.up" is "layers.0.up". Returns buf. */
const char *module_plain(char *buf, size_t size, const char *path);
/* Is path, in the module root, the wanted one or in it? Either as it is or plain. */
bool module_is_wanted(const char *wanted, const char *path, const char *root);
bool op_is_wanted(const char *wanted, const char *op);

/*
 * The second pass of an export: fn gets what passes. Blocks live when the span begins come first, as preexisting; for fn a
 * block ends where its version is of another category than the one asked for, and begins where it is of that one. 0, or fn's
 * error.
 */
int sieve__event(struct sieve *s, const struct tl_event *ev, timeline_fn fn, void *ctx);
int sieve__end(struct sieve *s, timeline_fn fn, void *ctx); /* of a recording that ended before the span began */

#endif
