/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* shelf: the recordings that can be asked for by name: files, and .mtr files in directories, not in those within. */
#ifndef MT_REPLAY_SHELF_H
#define MT_REPLAY_SHELF_H

#include <stddef.h>
#include <stdint.h>

#define SHELF_MAX 1000

struct shelf {
	struct shelf_row {
		char *path;
		uint64_t bytes;
		int64_t changed_s; /* seconds since it was last written to */
	} *rows;
	size_t cnt;
	int is_cut; /* there are more */
};

/* As they are now. 0 or -ENOMEM; missing and unreadable ones are left out. */
int shelf__fill(struct shelf *s, const char *const *paths, size_t cnt);
void shelf__done(struct shelf *s);
/* By its path, or by its last part where only one has it; NULL: the only one that there is. NULL: none, or several. */
const char *shelf__find(const struct shelf *s, const char *name);

#endif
