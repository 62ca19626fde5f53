/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * frames: the tree of stacks that --stacks recorded, from TL_STACK: nodes in their order, and each
 * distinct frame (function, file, line) once. Bounded by the recording: EV_STACKS_MAX nodes.
 */
#ifndef MT_VIEW_FOLD_FRAMES_H
#define MT_VIEW_FOLD_FRAMES_H

#include <stddef.h>

#include "timeline/timeline.h"

struct frames;

struct frames *frames__new(void); /* NULL: no memory */
void frames__free(struct frames *f);
/* A TL_STACK. One that does not follow the ones before it, or without memory, is left out. */
void frames__add(struct frames *f, const struct tl_event *ev);
/* Frame numbers of a node's stack, outermost first, at most `max` of the outermost; how many. */
size_t frames__path(const struct frames *f, uint32_t node, uint32_t *ret, size_t max);
const struct ev_frame *frames__get(const struct frames *f, uint32_t frame);
/* "function (file.py:12)", "function", or "(not known)"; valid UTF-8, as clean_text; its length. */
size_t frame_text(char *buf, size_t size, const struct names *names, const struct ev_frame *f);

#endif
