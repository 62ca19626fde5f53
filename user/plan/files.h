/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* files: the mapped files of a process, each opened once, and what each says: from the cache, or learnt. */
#ifndef MT_PLAN_FILES_H
#define MT_PLAN_FILES_H

#include "base/err.h"
#include "plan/cache.h"

#define FILES_NO_SHARE "the process's files have had their share"

struct open_lib {
	int is_asked, fd, r; /* r < 0: why there is no file */
	struct plan_file *file;
	struct elf *elf;
	uint64_t kept_bytes; /* of it */
	struct err why;	     /* it cannot be opened */
};

struct open_lib *builder__lib(struct builder *b, const struct lib *lib); /* NULL: no memory */
/* Again, if its descriptor was closed. */
int open_lib__ask(struct open_lib *o, struct builder *b, const struct lib *lib);
/* A second descriptor of it is read through. 0, -ENOMEM, -EDQUOT: the share is used up, or what elf__open says. */
int builder__open_elf(struct builder *b, const struct lib *lib, int fd, struct elf **ret, struct err *err);
void builder__close_elf(struct builder *b, struct open_lib *o);
/* Counted, and the first ones named. */
void builder__left_out(struct builder *b, const char *file, const char *why);

#endif
