/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What Python calls blocks. */
#ifndef MT_TIMELINE_REPORT_NAMES_H
#define MT_TIMELINE_REPORT_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include "event/event.h"

/* What Python calls a block that is alive. */
struct report_tensor {
	uint64_t id, ptr, size;
	uint32_t pid;
	uint8_t dev, cat;
	uint8_t kind; /* enum ev_tensor */
	char *path;   /* "layers.0.weight" */
	char *root;   /* class of the module that the path begins at, "#2" after the second one of that class */
	char *type;   /* "float32[512,512]" */
	char *key;    /* of an optimizer's state: "exp_avg"; else "" */
};

/* Named blocks of one kind, and those of them whose category contradicts it. */
struct report_named {
	uint64_t cnt, bytes, differ_cnt, differ_bytes;
};

struct report_names {
	struct report_tensor *rows; /* by size; `top` at most */
	size_t cnt, total;
	struct report_named by_kind[EV_TENSOR_MAX];
};

/*
 * "Sequential: 0.weight", "Adam exp_avg: 0.weight", "gradient of Sequential: 0.weight": as views print it, and the key by which
 * two recordings are compared. kind 0: it is printed elsewhere. A text that is too long is cut.
 */
void tensor_name(char *buf, size_t size, unsigned kind, const char *root, const char *key, const char *path);

#endif
