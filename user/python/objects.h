/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * objects: CPython's objects in another process's memory: types, strings, dicts, lists, tuples, attributes of
 * instances, modules by name.
 *
 * Everything read is checked: pointers are plausible, types have a metatype, a dict's numbers fit
 * together and its entries are as many as it counts. An object that does not fit is torn, or of another
 * type: -EAGAIN, after that memory was read again.
 */
#ifndef MT_PYTHON_OBJECTS_H
#define MT_PYTHON_OBJECTS_H

#include <stddef.h>
#include <stdint.h>

#include "python/snap.h"

#define PY_LOOK_ITEMS_MAX 20000000u /* entries of dicts and lists that one look reads */
#define PY_ITEMS_MAX 1000000u /* of a dict, list or tuple */
#define PY_TEXT_MAX 256	      /* bytes of a string with its NUL; longer ones are none */

/* Where an instance's attributes are. */
enum py_dict_place {
	PY_DICT_BY_OFFSET = 0, /* 3.10: tp_dictoffset */
	PY_DICT_TWO_WORDS = 1, /* 3.11: dict at -24, values at -32 */
	PY_DICT_ONE_WORD = 2,  /* 3.12: at -24, the lowest bit shows which */
	PY_DICT_INLINE = 3,    /* 3.13: dict at -24, values behind the object */
};

/* Builds with a GIL and pointers of eight bytes, by offsetof() in each version's headers. */
struct py_object_offsets {
	uint8_t minor;
	uint8_t dict_place;    /* enum py_dict_place */
	uint8_t keys_are_old;  /* 3.10: wide PyDictKeysObject */
	uint8_t values_header; /* bytes before the values of a split dict: 3.13 */
	uint16_t interp_modules; /* sys.modules */
	uint16_t interp_gc;
	uint16_t str_ascii, str_other;
	uint16_t cached_keys; /* of a heap type */
};

/* What instances of a type are; flags are CPython's Py_TPFLAGS_*. */
enum { PY_IS_INT = 1u << 24, PY_IS_LIST = 1u << 25, PY_IS_TUPLE = 1u << 26, PY_IS_STR = 1u << 28, PY_IS_DICT = 1u << 29,
       PY_IS_TYPE = 1u << 31 };

#define PY_BASES_MAX 4
struct py_type {
	uint64_t addr; /* 0: no entry */
	uint32_t flags;
	uint32_t bases; /* bit i: `bases[i]` of struct py is among its ancestors or itself */
};

#define PY_TYPES_SLOTS 16384u
struct py {
	struct py_snap *snap;
	const struct py_object_offsets *at;
	uint64_t interp;
	uint64_t bases[PY_BASES_MAX]; /* types to look for; set before the first py__type of a look */
	struct py_type *types;	      /* by address; forgotten with the look */
	uint32_t types_cnt;
	uint64_t torn;	/* dicts that had to be given up */
	uint64_t items_left; /* of this look: bounds made-up objects */
};

const struct py_object_offsets *py_object_offsets(unsigned minor); /* NULL: not known */

int py__init(struct py *p, const struct py_mem *mem, unsigned minor); /* -ENOMEM, -ENOTSUP */
void py__done(struct py *p);
void py__fresh(struct py *p); /* a new look */
void py__forget_types(struct py *p); /* after a change of `bases` */

/* The type of an object that is alive, as of now; NULL: there is no object. Good until the next call. */
const struct py_type *py__type_of(struct py *p, uint64_t obj);
const struct py_type *py__type(struct py *p, uint64_t type);
int py__is(struct py *p, uint64_t obj, uint32_t flag); /* of a subclass of dict, list … */
/* Text of a str as UTF-8; -EAGAIN: not a str, too long, or with characters that no name has. */
int py__text(struct py *p, uint64_t str, char buf[PY_TEXT_MAX]);
int py__is_text(struct py *p, uint64_t str, const char *text);
/* The first line of a str, for people: control characters are blanks, with none at its end; no room: "…". -EAGAIN: empty. */
int py__first_line(struct py *p, uint64_t str, char buf[PY_TEXT_MAX]);
/* An int, or a bool, from 0 to 2^63. -EAGAIN: not one. */
int py__number(struct py *p, uint64_t num, uint64_t *ret);
/* Name of a type, from its tp_name: the last part. */
int py__type_name(struct py *p, uint64_t type, char buf[PY_TEXT_MAX]);

/*
 * Entries in order of insertion. fn: enum py_item, bits. -EAGAIN: torn; some may have been
 * reported. PASSED by the key alone: its value, now or later, makes no difference.
 */
enum py_item { PY_ITEM_NEXT = 0, PY_ITEM_ENOUGH = 1, PY_ITEM_PASSED = 2 };
typedef int (*py_item_fn)(void *ctx, uint64_t key, uint64_t value);
int py__each_item(struct py *p, uint64_t dict, py_item_fn fn, void *ctx);
/* Attributes of an instance, wherever they are. */
int py__each_attr(struct py *p, uint64_t obj, py_item_fn fn, void *ctx);
/* Of a list or tuple; *ret is malloc'ed. */
int py__items(struct py *p, uint64_t seq, uint64_t **ret, size_t *ret_cnt);
/* A dict's value by its key's text: 0 if there is none. */
int py__get(struct py *p, uint64_t dict, const char *key, uint64_t *ret);
/* An attribute of a module that has been imported: "torch.nn.modules.module", "Module". -ENOENT, -EAGAIN. */
int py__module_attr(struct py *p, const char *module, const char *attr, uint64_t *ret);

#endif
