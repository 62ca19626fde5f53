/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * intern: equal things get the same number: frames, lists of frames, and the tree of stacks that the recording has. Numbers
 * start at 1; 0: there is no more room, and the caller counts that.
 *
 * All processes share the tables, and nothing is removed: so no process has more than an eighth of what is left of one.
 */
#ifndef MT_STACK_INTERN_H
#define MT_STACK_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/names.h"
#include "event/event.h"

#define FRAMES_MAX (1u << 18)
#define LISTS_MAX (1u << 17)
#define LISTS_WORDS_MAX (1u << 22)

/* The kind of a frame, for the merge; in one word of a list with its number. */
#define LIST_EVAL (1u << 31)   /* the interpreter's eval loop */
#define LIST_PYTHON (1u << 30) /* other code of the interpreter; of a Python list: called from C */
#define LIST_FRAME(w) ((w) & (LIST_PYTHON - 1))

struct intern;

struct intern *intern__new(void); /* NULL: no memory */
void intern__free(struct intern *n);
/* Entries added from now on belong to that process; 0, the initial value: to none, without a share. */
void intern__by(struct intern *n, uint32_t owner);
void intern__drop_owner(struct intern *n, uint32_t owner); /* it has ended */
uint32_t intern__next_over(struct intern *n); /* a process over its share that was not returned yet; 0: none */
uint32_t intern__frame(struct intern *n, const struct ev_frame *f);
const struct ev_frame *intern__frame_at(const struct intern *n, uint32_t frame);
/* Words, innermost first; `is_cut`: the outermost one is not the first of its thread. */
uint32_t intern__list(struct intern *n, const uint32_t *words, size_t cnt, int is_cut);
const uint32_t *intern__list_at(const struct intern *n, uint32_t list, size_t *ret_cnt, int *ret_is_cut);
/* Child of a node (0: the root) with that frame; *ret_is_new: it was added. At most EV_STACKS_MAX. */
uint32_t intern__node(struct intern *n, uint32_t parent, uint32_t frame, int *ret_is_new);
/* A number kept for a pair of numbers: *get 0 = none. */
uint32_t intern__pair(const struct intern *n, uint32_t a, uint32_t b);
void intern__keep_pair(struct intern *n, uint32_t a, uint32_t b, uint32_t value);

#endif
