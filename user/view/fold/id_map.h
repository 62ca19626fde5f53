/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* id_map: a number and a tag by a block's id; 24 bytes a row, open addressing. */
#ifndef MT_VIEW_FOLD_ID_MAP_H
#define MT_VIEW_FOLD_ID_MAP_H

#include <stddef.h>
#include <stdint.h>

struct id_row {
	uint64_t id; /* 0: free */
	uint64_t value;
	uint32_t tag;
};

struct id_map {
	struct id_row *rows;
	size_t cnt, mask;
};

int id_map__init(struct id_map *m); /* 0 or -ENOMEM */
void id_map__done(struct id_map *m);
struct id_row *id_map__find(const struct id_map *m, uint64_t id); /* NULL: none; good until the next put or remove */
struct id_row *id_map__put(struct id_map *m, uint64_t id);	  /* the row there is, or a new one of zeros; NULL: no memory */
void id_map__remove(struct id_map *m, struct id_row *row);

#endif
