/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* selection_words: the part of a recording that was asked for (timeline/selection.h), for views to show. */
#ifndef MT_VIEW_SELECTION_WORDS_H
#define MT_VIEW_SELECTION_WORDS_H

#include <stddef.h>

struct json;
struct selection;

void selection_json(struct json *j, const struct selection *s); /* "filter": what was given */
/* "category ACTIVATION, module block"; returns buf, empty if nothing was. */
const char *selection_words(const struct selection *s, char *buf, size_t size);

#endif
