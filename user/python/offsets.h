/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * offsets: offsets of the fields that are read of CPython's threads, frames and code objects, by version, in bytes.
 *
 * Builds with a GIL and pointers of eight bytes. Taken by offsetof() from each version's own headers; a minor version never
 * changes them. Other versions are refused, never guessed.
 */
#ifndef MT_PYTHON_OFFSETS_H
#define MT_PYTHON_OFFSETS_H

#include <stdint.h>

#define PY_MINOR_MIN 10
#define PY_MINOR_MAX 13

struct py_frame_offsets {
	uint8_t minor; /* 3.minor */
	/* _PyRuntime, interpreter, thread */
	uint16_t interp_head; /* of _PyRuntime: the first interpreter */
	uint16_t interp_next;
	uint16_t interp_threads; /* the first thread */
	uint16_t tstate_next;
	uint16_t tstate_interp;
	uint16_t tstate_thread_id; /* pthread_self(): the value of %fs */
	uint16_t tstate_frame;	   /* the innermost frame, or the struct that has it … */
	uint8_t has_cframe;
	uint16_t cframe_frame; /* … there */
	/* frame */
	uint16_t frame_previous;
	uint16_t frame_code;
	uint16_t frame_instr; /* 3.10: int, index of the instruction; else its address */
	uint16_t frame_owner; /* u8 */
	uint16_t frame_entry; /* 3.11: bool, the first of its eval loop */
	uint16_t frame_self;  /* the first local variable */
	uint16_t frame_bytes; /* all of these (but for frame_self of 3.10) lie in so many bytes, which are there */
	uint8_t owner_shim;   /* `owner` of a frame that only marks an entry from C; 0: none such */
	/* code object */
	uint16_t code_firstlineno; /* int */
	uint16_t code_filename, code_name, code_qualname, code_linetable; /* 3.10 has no qualname: name */
	uint16_t code_check;	/* four words that never change (names, tables), unlike an object there later */
	uint16_t code_bytecode; /* 3.10: 0, instructions are known by index */
	/* objects */
	uint16_t str_ascii, str_other; /* characters of a compact str */
};

/* NULL: not known. */
const struct py_frame_offsets *py_frame_offsets(unsigned minor);

#endif
