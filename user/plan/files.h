/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* files: the mapped files of a process, each opened once, and the facts of each: from the cache, or read. */
#ifndef MT_PLAN_FILES_H
#define MT_PLAN_FILES_H

#include "base/err.h"
#include "plan/cache.h"

#define FILES_NO_SHARE "the process's files have had their share"

struct open_lib {
	int is_asked, fd, r; /* is_asked: it was tried; r < 0: why there is no file */
	struct plan_file *file;
	struct elf *elf;
	uint64_t kept_bytes; /* of it */
	struct err why;	     /* why it cannot be opened */
};

struct open_lib *builder__lib(struct builder *b, const struct lib *lib); /* NULL: no memory */
/* Opens it again, if its descriptor was closed. */
int open_lib__ask(struct open_lib *o, struct builder *b, const struct lib *lib);
/* A second descriptor is used for reading. 0, -ENOMEM, -EDQUOT: the share is used up, or elf__open's error. */
int builder__open_elf(struct builder *b, const struct lib *lib, int fd, struct elf **ret, struct err *err);
void builder__close_elf(struct builder *b, struct open_lib *o);
/* Counts a file that is left out, and names the first ones. */
void builder__left_out(struct builder *b, const char *file, const char *why);

#endif
