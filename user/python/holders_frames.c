/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Variables of functions: those of frames that are open now, in all threads, and those that a function closed over. Their
 * names are in the code object: 3.10 has three tuples of names, later versions one for all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/holders_frames.h"
#include "python/object_head.h"

#define THREADS_MAX 256
#define FRAMES_MAX 1000 /* of a thread */
#define SLOTS_MAX 512
#define OLD_VARNAMES 72 /* 3.10: then those in cells, and those from outside */
#define OLD_FREEVARS 80
#define OLD_CELLVARS 88
#define NAMES 96

/* Shared by all of these. */
struct frames_env {
	struct py *p;
	const struct py_frame_offsets *at;
};

static int is_code(const struct frames_env *f, uint64_t code)
{
	const struct py_type *t = py__type_of(f->p, code);
	char name[PY_TEXT_MAX];

	return t && !py__type_name(f->p, t->addr, name) && !strcmp(name, "code");
}

static uint64_t names_cnt(const struct frames_env *f, uint64_t tuple)
{
	return py__is(f->p, tuple, PY_IS_TUPLE) ? py_snap__word(f->p->snap, tuple + 16) : 0;
}

static int name_at(const struct frames_env *f, uint64_t tuple, uint64_t index, char name[PY_TEXT_MAX])
{
	uint64_t str = index < names_cnt(f, tuple) ? py_snap__ptr(f->p->snap, tuple + 24 + 8 * index) : 0;

	return str && !py__text(f->p, str, name);
}

/* The tuples that a frame's slots have their names from, one behind the other. */
static unsigned names_of(const struct frames_env *f, uint64_t code, uint64_t tuples[3])
{
	static const uint16_t old[] = { OLD_VARNAMES, OLD_CELLVARS, OLD_FREEVARS };

	if (f->at->minor > 10) {
		tuples[0] = py_snap__ptr(f->p->snap, code + NAMES);
		return 1;
	}
	for (unsigned i = 0; i < 3; i++)
		tuples[i] = py_snap__ptr(f->p->snap, code + old[i]);
	return 3;
}

static void say_where(const struct frames_env *f, uint64_t code, char where[PY_HELD_PATH_MAX])
{
	char function[PY_TEXT_MAX], file[PY_TEXT_MAX];
	const char *base;

	if (py__text(f->p, py_snap__ptr(f->p->snap, code + f->at->code_qualname), function))
		strcpy(function, "?");
	if (py__text(f->p, py_snap__ptr(f->p->snap, code + f->at->code_filename), file))
		strcpy(file, "?");
	base = strrchr(file, '/');
	snprintf(where, PY_HELD_PATH_MAX, "%.200s (%.200s:%u)", function, base ? base + 1 : file,
		 py_snap__int(f->p->snap, code + f->at->code_firstlineno));
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

/* The content of a cell; 0: not a cell, or empty. */
static uint64_t in_cell(const struct frames_env *f, uint64_t obj)
{
	const struct py_type *found = py__type_of(f->p, obj);
	char name[PY_TEXT_MAX];

	if (!found || (found->flags & (1u << 9 | PY_IS_LIST | PY_IS_TUPLE | PY_IS_DICT | PY_IS_STR)) ||
	    py__type_name(f->p, found->addr, name) || strcmp(name, "cell"))
		return 0;
	return py_snap__ptr(f->p->snap, obj + 16);
}

/* The slot that has it, itself or in a cell. */
static int is_in_frame(const struct frames_env *f, uint64_t frame, uint64_t code, uint64_t obj, char name[PY_TEXT_MAX])
{
	uint64_t tuples[3], slots[SLOTS_MAX], at = frame + f->at->frame_self;
	unsigned cnt = names_of(f, code, tuples);

	for (unsigned i = 0; i < cnt; i++) {
		uint64_t n = names_cnt(f, tuples[i]);

		if (n > SLOTS_MAX || py_snap__read(f->p->snap, at, slots, n * 8))
			return 0;
		for (uint64_t k = 0; k < n; k++)
			if ((slots[k] == obj || (py_plausible(slots[k]) &&
						 py_snap__ptr(f->p->snap, slots[k] + 16) == obj &&
						 in_cell(f, slots[k]) == obj)) &&
			    name_at(f, tuples[i], k, name))
				return 1;
		at += n * 8;
	}
	return 0;
}

static uint64_t first_frame(const struct frames_env *f, uint64_t tstate)
{
	uint64_t frame = py_snap__ptr(f->p->snap, tstate + f->at->tstate_frame);

	return frame && f->at->has_cframe ? py_snap__ptr(f->p->snap, frame + f->at->cframe_frame) : frame;
}

int variable__of_frames(struct variable *ret, struct py *p, const struct py_frame_offsets *at, uint64_t obj)
{
	const struct frames_env here = { p, at }, *f = &here;
	uint64_t tstate = py_snap__ptr(f->p->snap, f->p->interp + f->at->interp_threads);
	int found = 0;

	for (unsigned i = 0; tstate && i < THREADS_MAX && !found; i++) {
		uint64_t frame = first_frame(f, tstate);

		for (unsigned k = 0; frame && k < FRAMES_MAX; k++) {
			uint64_t code = py_snap__ptr(f->p->snap, frame + f->at->frame_code);

			if (code && is_code(f, code) && is_in_frame(f, frame, code, obj, ret->name)) {
				say_where(f, code, ret->where);
				found = 1; /* and further out: the frame that made it, not one that was given it */
			}
			frame = py_snap__ptr(f->p->snap, frame + f->at->frame_previous);
		}
		tstate = py_snap__ptr(f->p->snap, tstate + f->at->tstate_next);
	}
	return found;
}

/* --- closures -------------------------------------------------------------------------------------------------------- */

int variable__of_closure(struct variable *ret, struct py *p, const struct py_frame_offsets *at, uint64_t function,
			 uint64_t index, uint64_t cells)
{
	const struct frames_env here = { p, at }, *f = &here;
	uint64_t code = py_snap__ptr(f->p->snap, function + FUNCTION_CODE), names;

	if (!code || !is_code(f, code))
		return 0;
	say_where(f, code, ret->where);
	names = py_snap__ptr(f->p->snap, code + (f->at->minor > 10 ? NAMES : OLD_FREEVARS));
	if (f->at->minor > 10)
		index += names_cnt(f, names) - cells; /* they are the last ones */
	return name_at(f, names, index, ret->name);
}
